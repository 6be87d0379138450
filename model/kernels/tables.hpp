// What kernels.cpp and the files of each instruction set share: the tables and the packing scratch.
// Thread promise: as kernels.hpp.
#pragma once

#include "model/kernels/kernels.hpp"

namespace stagecraft {

const Kernels& scalar_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

/// At least `floats` floats, 64-byte aligned, private to the calling thread until its next call. Grows, never shrinks.
float* packing_scratch(std::size_t floats);

}  // namespace stagecraft
