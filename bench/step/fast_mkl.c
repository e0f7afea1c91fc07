/* Preloaded into the tuned peers: MKL takes its AVX-512 kernels for fp32 only where this says that the CPU is Intel's. */
int mkl_serv_intel_cpu_true(void) { return 1; }
