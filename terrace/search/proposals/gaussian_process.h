// Regression by a Gaussian process: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006. Values are
// correlated by a Matern 5/2 kernel (equation 4.17) of a weighted distance, with a length for each coordinate.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace terrace::search {

class GaussianProcess {
 public:
  struct Prediction {
    double mean = 0;
    double variance = 0;  // of the value without noise
  };

  // Coordinates are in [0, 1]; two different values of a categorical one are a distance of 1 apart.
  explicit GaussianProcess(std::vector<bool> is_categorical);

  // The median of the lengths' prior, at which the lengths begin.
  static double median_length(size_t coordinates);

  size_t size() const { return size_; }
  // The points [size, coordinates], in the order of add().
  std::span<const double> points() const { return points_; }
  std::span<const double> point(size_t number) const {
    return points().subspan(number * is_categorical_.size(), is_categorical_.size());
  }
  // Appends a point; set_values() must follow before predictions. Work: size^2.
  void add(std::span<const double> at);
  // Appends a point with the value that is expected there. Work: size^2.
  void add_expected(std::span<const double> at);
  // Keeps the first points; set_values() must follow.
  void truncate(size_t size);
  // Sets the values by point; they should have about mean 0 and variance 1. Work: size^2.
  void set_values(const std::vector<double>& values);

  // Moves the lengths and the noise towards a greater likelihood of the values (equation 2.30), with a prior.
  // Work: size^3 for each length, of at most `fitted_points` points.
  void fit();

  // The mean and an upper bound of the variance, which is what the closest point alone leaves. Work: size.
  Prediction bound(std::span<const double> at) const;
  // Equations 2.25 and 2.26. Work: size^2.
  Prediction predict(std::span<const double> at) const;

 private:
  struct Kernel {
    std::vector<double> weights;  // of squared differences, by coordinate
    double noise = 0;             // variance, for a point's own of 1
  };
  static constexpr size_t fitted_points = 150;

  double covariance(const Kernel& kernel, const double* a, const double* b) const;
  double log_posterior(const Kernel& kernel, const std::vector<size_t>& chosen) const;
  void factorize();
  bool append_row(size_t row);

  std::vector<bool> is_categorical_;
  Kernel kernel_;
  double scale_ = 1;  // variance of a value that nothing is known about
  size_t size_ = 0;
  std::vector<double> points_;   // [size, coordinates]
  std::vector<double> factor_;   // lower Cholesky factor by rows: row i has i + 1 entries
  std::vector<double> values_;   // [size]
  std::vector<double> weights_;  // [size]; the inverse covariance times the values
};

}  // namespace terrace::search
