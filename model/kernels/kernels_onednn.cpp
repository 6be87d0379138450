// The fastest exact kernels with their matrix product replaced by oneDNN's. The only file that sees the library.
//
// Attention, norms and the rest stay ours. oneDNN keeps the same bits at equal shapes, library and CPU only.
#include "model/kernels/kernels_onednn.hpp"

#include <stdexcept>
#include <string>

#ifdef STAGECRAFT_ONEDNN
#include <dnnl.h>
#include <omp.h>
#endif

namespace stagecraft {

#ifdef STAGECRAFT_ONEDNN

namespace {

// Each thread that trains is a device of its own: the library must not start helpers under it, and its bits would
// depend on how many there are.
struct OneThread {
  OneThread() { omp_set_num_threads(1); }
};

void matmul_onednn(const MatrixProduct& x) {
  thread_local const OneThread one_thread;
  (void)one_thread;
  if (x.m == 0 || x.n == 0) return;
  if (x.k == 0) return kernels(best_isa()).matmul(x);  // nothing to multiply: cleared, or left alone
  const auto size = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  const dnnl_status_t status =
      dnnl_sgemm(x.transpose_a ? 'T' : 'N', x.transpose_b ? 'T' : 'N', size(x.m), size(x.n), size(x.k), 1.0F, x.a,
                 size(x.lda), x.b, size(x.ldb), x.accumulate ? 1.0F : 0.0F, x.c, size(x.ldc));
  if (status != dnnl_success)
    throw std::runtime_error("kernels: oneDNN refused a product of " + std::to_string(x.m) + " x " +
                             std::to_string(x.n) + " x " + std::to_string(x.k) + " with status " +
                             std::to_string(static_cast<int>(status)) + "; use training.kernels: exact");
}

Kernels with_onednn() {
  Kernels table = kernels(best_isa());
  table.matmul = matmul_onednn;
  return table;
}

}  // namespace

std::string onednn_missing() { return {}; }

const Kernels& onednn_kernels() {
  static const Kernels table = with_onednn();
  return table;
}

#else

std::string onednn_missing() {
  return "this build has no oneDNN; install its development files (Debian: libdnnl-dev), run cmake and build again, or "
         "use training.kernels: exact";
}

const Kernels& onednn_kernels() { throw std::runtime_error("kernels: " + onednn_missing()); }

#endif

bool onednn_available() { return onednn_missing().empty(); }

}  // namespace stagecraft
