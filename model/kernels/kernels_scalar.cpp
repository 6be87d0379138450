// The kernels for every CPU: what the faster ones must equal bit for bit.
#include "model/kernels/group_template.hpp"
#include "model/kernels/lanes_array.hpp"
#include "model/kernels/tables.hpp"

namespace stagecraft {

const Kernels& scalar_kernels() {
  static constexpr Kernels table = table_of<Lanes<16>>(Isa::scalar);
  return table;
}

}  // namespace stagecraft
