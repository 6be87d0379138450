// The vocabulary as other programs write it: bytes in GPT-2's alphabet of printable characters, and the separator.
// Thread promise: const functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// What stands for the separator in text. The name by which other programs know a token that ends a document.
inline constexpr std::string_view separator_text = "<|endoftext|>";

/// Token -> its text in UTF-8: bytes 0 .. 255, then the separator. Bytes 33-126, 161-172 and 174-255 stand for
/// themselves (as Unicode code points), the other 68 in rising order for U+0100 + n (Radford et al., 2019, GPT-2).
std::vector<std::string> byte_vocabulary();

}  // namespace stagecraft
