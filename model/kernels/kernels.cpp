#include "model/kernels/kernels.hpp"

#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "model/kernels/tables.hpp"

namespace stagecraft {

namespace {

struct Free {
  void operator()(float* p) const { std::free(p); }
};

struct Scratch {
  std::unique_ptr<float, Free> data;
  std::size_t floats = 0;
};

}  // namespace

float* packing_scratch(std::size_t floats) {
  thread_local Scratch scratch;
  if (floats > scratch.floats) {
    const std::size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
    scratch.data.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    scratch.floats = scratch.data == nullptr ? 0 : floats;
    if (scratch.data == nullptr) throw std::bad_alloc();
  }
  return scratch.data.get();
}

bool available(Isa isa) {
  if (isa == Isa::scalar) return true;
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

Isa best_isa() { return available(Isa::avx2) ? Isa::avx2 : Isa::scalar; }

const char* name_of(Isa isa) { return isa == Isa::avx2 ? "avx2" : "scalar"; }

const Kernels& kernels(Isa isa) {
  if (!available(isa))
    throw std::invalid_argument(std::string("kernels: this CPU cannot run ") + name_of(isa) +
                                " code (it needs AVX2 and FMA); use scalar");
  return isa == Isa::avx2 ? avx2_kernels() : scalar_kernels();
}

}  // namespace stagecraft
