// Keeps a plain C++ object in an autograd context, where torch itself keeps only tensors and simple values.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace terrace::ops {

template <typename T>
struct SavedObject : torch::CustomClassHolder {
  explicit SavedObject(T object) : object(std::move(object)) {}
  T object;
};

template <typename T>
void save_object(torch::autograd::AutogradContext* context, const char* name, T object) {
  context->saved_data[name] = at::IValue::make_capsule(c10::make_intrusive<SavedObject<T>>(std::move(object)));
}

template <typename T>
const T& saved_object(torch::autograd::AutogradContext* context, const char* name) {
  // The context holds a reference, which keeps the object alive.
  return static_cast<SavedObject<T>*>(context->saved_data.at(name).toCapsule().get())->object;
}

}  // namespace terrace::ops
