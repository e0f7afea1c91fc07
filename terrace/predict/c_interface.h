// Energies and forces for programs in C, Fortran and others, by functions without C++ types. The library is that of the
// room predict (docs/library.md).
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

struct terrace_potential;

// The model of a checkpoint's folder, or of a run's folder for its newest complete checkpoint. Returns null after a
// mistake, whose message is then in `error`, of at most error_size bytes with the 0 at its end; error may be null.
struct terrace_potential* terrace_potential_open(const char* checkpoint, char* error, int error_size);

// The energy in eV (converted where the data of the model declare another unit) of atoms with atomic numbers [atoms]
// and positions [atoms][3] in angstrom, and their forces [atoms][3] in eV/angstrom, unless `forces` is null. The rows
// of `cell` are its vectors, null where there is none; periodic[k] is 1 where the structure repeats along vector k.
// Returns 0, or 1 after a mistake, as above. One thread at a time may use a potential.
int terrace_potential_compute(struct terrace_potential* potential, int atoms, const int* atomic_numbers,
                              const double* positions, const double* cell, const int* periodic, double* energy,
                              double* forces, char* error, int error_size);

// Closes the potential and frees its memory; does nothing for null.
void terrace_potential_close(struct terrace_potential* potential);

#ifdef __cplusplus
}
#endif
