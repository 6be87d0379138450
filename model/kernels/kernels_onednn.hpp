// The optional fast table: matrix products by oneDNN, the rest as in the fastest exact table.
//
// The library is found when the build is configured, never required. Its products keep the same bits only at equal
// shapes, library and CPU (consistency: relaxed), and a gradient accumulated over micro-batches is not one chain.
// Thread promise: any thread; each calls the library with one thread of its own.
#pragma once

#include <string>

#include "model/kernels/kernels.hpp"

namespace stagecraft {

/// True when this build has oneDNN.
bool onednn_available();
/// Why not, and what to do about it, for `check` and `run`; empty when it is there.
std::string onednn_missing();
/// Throws std::runtime_error with that text when it is not there.
const Kernels& onednn_kernels();

}  // namespace stagecraft
