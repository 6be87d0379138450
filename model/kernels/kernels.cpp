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

std::size_t attention_score_ld(std::size_t length) { return (length + 31) / 32 * 32 + 16; }

std::size_t attention_scratch(std::size_t length, std::size_t head_size) {
  const std::size_t rows = length < attention_rows ? length : attention_rows;
  const auto panels = [](std::size_t columns) { return (columns + 31) / 32 * 32; };  // of the widest register tile
  const std::size_t scores = 2 * rows * attention_score_ld(length);
  const std::size_t keys_and_values = 2 * panels(length) * head_size + length * panels(head_size);
  return scores + keys_and_values + 2 * rows * panels(head_size);
}

bool available(Isa isa) {
  // What the CPU has and the operating system saves: the builtin asks for both.
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
      return avx2 && __builtin_cpu_supports("avx512f") != 0;
  }
  return false;
}

Isa best_isa() { return available(Isa::avx512) ? Isa::avx512 : available(Isa::avx2) ? Isa::avx2 : Isa::scalar; }

const char* name_of(Isa isa) { return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "scalar"; }

const Kernels& kernels(Isa isa) {
  if (!available(isa))
    throw std::invalid_argument(std::string("kernels: this CPU cannot run ") + name_of(isa) + " code (it needs " +
                                (isa == Isa::avx512 ? "AVX-512 F, " : "") + "AVX2 and FMA); use " +
                                name_of(best_isa()));
  return isa == Isa::avx512 ? avx512_kernels() : isa == Isa::avx2 ? avx2_kernels() : scalar_kernels();
}

}  // namespace stagecraft
