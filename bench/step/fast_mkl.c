/* Preloaded into the tuned peers: MKL takes its best kernels for fp32 (AVX-512, AVX2) only where this says that the CPU is Intel's. */
int mkl_serv_intel_cpu_true(void) { return 1; }
