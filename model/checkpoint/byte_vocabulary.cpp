#include "model/checkpoint/byte_vocabulary.hpp"

namespace stagecraft {
namespace {

bool stands_for_itself(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// Of a code point below U+0800: one byte or two.
std::string utf8(unsigned code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 0x3f))};
}

}  // namespace

std::vector<std::string> byte_vocabulary() {
  std::vector<std::string> texts;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) texts.push_back(utf8(stands_for_itself(byte) ? byte : next++));
  texts.emplace_back(separator_text);
  return texts;
}

}  // namespace stagecraft
