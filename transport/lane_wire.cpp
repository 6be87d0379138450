#include "transport/lane_wire.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "planning/bug.hpp"

namespace stagecraft {

namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

constexpr std::uint64_t magic = 0x656e616c20666373;  // "scf lane"
constexpr std::uint32_t version = 1;
constexpr std::uint32_t most_payloads = 1024, most_window = 1024;
constexpr std::uint64_t most_header = 16 << 20, most_payload = std::uint64_t{1} << 40;
constexpr std::uint64_t most_room = 5 << 10;  // a payload of 4 KiB and a header

struct Hello {
  std::uint64_t magic;
  std::uint32_t version, rank, window, payloads;
  std::uint64_t header, payload;
  std::array<unsigned char, 32> proof;  // HMAC-SHA256 of what stands before it
};
static_assert(sizeof(Hello) == lane_hello_bytes && std::is_trivially_copyable_v<Hello>);

// Then an entry per payload, then what has room.
struct FrameHead {
  std::uint64_t checksum;  // XXH3 of what stands after it
  std::uint64_t sequence;
  std::uint32_t bytes;  // of the frame
  std::uint32_t header_bytes, payloads, unused;
};
struct FrameEntry {
  std::uint64_t bytes, charged;
};
static_assert(sizeof(FrameHead) == 32 && sizeof(FrameEntry) == 16);

std::array<unsigned char, 32> proof_of(const Hello& hello, const LaneToken& token) {
  std::array<unsigned char, 32> proof{};
  unsigned size = 0;
  const auto* said = reinterpret_cast<const unsigned char*>(&hello);
  const auto* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()), said, offsetof(Hello, proof),
                          proof.data(), &size);
  STAGECRAFT_ASSERT(made != nullptr && size == proof.size(), "no HMAC-SHA256 in this OpenSSL");
  return proof;
}

std::uint64_t checksum_of(std::span<const char> frame) {
  const auto rest = frame.subspan(sizeof(std::uint64_t));
  return XXH3_64bits(rest.data(), rest.size());
}

std::uint64_t bytes_of(const Tensor& tensor) { return tensor.size() * sizeof(float); }

}  // namespace

std::optional<std::string> check_limits(const LaneLimits& limits) {
  if (limits.window < 1 || limits.window > most_window)
    return fmt::format("a window of {} parcels, where 1 to {} are possible", limits.window, most_window);
  if (limits.payloads > most_payloads)
    return fmt::format("up to {} payloads, where {} are possible", limits.payloads, most_payloads);
  if (limits.header.value > most_header)
    return fmt::format("headers of up to {}, where {} are possible", format(limits.header), format(Bytes{most_header}));
  if (limits.payload.value > most_payload)
    return fmt::format("payloads of up to {}, where {} are possible", format(limits.payload),
                       format(Bytes{most_payload}));
  return std::nullopt;
}

std::vector<char> make_hello(const LaneLimits& limits, const LaneToken& token, int rank) {
  Hello hello{magic,
              version,
              static_cast<std::uint32_t>(rank),
              limits.window,
              limits.payloads,
              limits.header.value,
              limits.payload.value,
              {}};
  hello.proof = proof_of(hello, token);
  std::vector<char> bytes(sizeof hello);
  std::memcpy(bytes.data(), &hello, sizeof hello);
  return bytes;
}

std::optional<std::string> check_hello(std::span<const char> bytes, const LaneLimits& limits, const LaneToken& token,
                                       int rank) {
  STAGECRAFT_ASSERT(bytes.size() == sizeof(Hello), "a hello of {} bytes", bytes.size());
  Hello hello{};
  std::memcpy(&hello, bytes.data(), sizeof hello);
  const auto proof = proof_of(hello, token);
  const bool proved = CRYPTO_memcmp(proof.data(), hello.proof.data(), proof.size()) == 0;
  if (hello.magic != magic) return "what connected is no lane of stagecraft";
  if (hello.version != version)
    return fmt::format("the peer speaks version {} of the lane's protocol, this end version {}", hello.version,
                       version);
  if (!proved) return "the peer does not know this lane's token: it belongs to another lane, run or incarnation";
  if (hello.rank != static_cast<std::uint32_t>(1 - rank))
    return fmt::format("the peer says it is end {}, which is this end", hello.rank);
  const auto differs = [](const char* what, std::uint64_t theirs, std::uint64_t ours) {
    return fmt::format("the ends disagree on {}: {} at the peer, {} here", what, theirs, ours);
  };
  if (hello.window != limits.window) return differs("the window", hello.window, limits.window);
  if (hello.payloads != limits.payloads) return differs("payloads per parcel", hello.payloads, limits.payloads);
  if (hello.header != limits.header.value) return differs("bytes per header", hello.header, limits.header.value);
  if (hello.payload != limits.payload.value) return differs("bytes of payload", hello.payload, limits.payload.value);
  return std::nullopt;
}

std::optional<std::string> check_parcel(const LaneParcel& parcel, const LaneLimits& limits) {
  if (parcel.header.size() > limits.header.value)
    return fmt::format("a header of {} bytes is over the limit of {}", parcel.header.size(), limits.header.value);
  if (parcel.payloads.size() > limits.payloads)
    return fmt::format("{} payloads are over the limit of {}", parcel.payloads.size(), limits.payloads);
  std::uint64_t sum = 0;
  for (const Tensor& payload : parcel.payloads) sum += bytes_of(payload);
  if (sum > limits.payload.value)
    return fmt::format("payloads of {} bytes are over the limit of {}", sum, limits.payload.value);
  return std::nullopt;
}

FrameRoom::FrameRoom(const LaneLimits& limits)
    : left_(std::min(limits.header.value + limits.payload.value, most_room)) {}

std::size_t frame_bytes(const LaneLimits& limits) {
  return sizeof(FrameHead) + limits.payloads * sizeof(FrameEntry) +
         std::min(limits.header.value + limits.payload.value, most_room);
}

std::size_t write_frame(const LaneParcel& parcel, std::uint64_t sequence, const LaneLimits& limits,
                        std::span<char> frame) {
  STAGECRAFT_ASSERT(frame.size() == frame_bytes(limits), "a frame of {} bytes", frame.size());
  char* at = frame.data() + sizeof(FrameHead);
  const auto put = [&](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(at, from, bytes);
    at += bytes;
  };
  for (const Tensor& payload : parcel.payloads) {
    const std::uint64_t bytes = bytes_of(payload);
    const FrameEntry entry{bytes, bytes == 0 ? 0 : payload.buffer()->charged().value};
    put(&entry, sizeof entry);
  }
  FrameRoom room(limits);
  if (room.takes(parcel.header.size())) put(parcel.header.data(), parcel.header.size());
  for (const Tensor& payload : parcel.payloads)
    if (const std::uint64_t bytes = bytes_of(payload); bytes > 0 && room.takes(bytes)) put(payload.data(), bytes);

  const auto used = static_cast<std::size_t>(at - frame.data());
  FrameHead head{0,
                 sequence,
                 static_cast<std::uint32_t>(used),
                 static_cast<std::uint32_t>(parcel.header.size()),
                 static_cast<std::uint32_t>(parcel.payloads.size()),
                 0};
  std::memcpy(frame.data(), &head, sizeof head);
  head.checksum = checksum_of(frame.first(used));
  std::memcpy(frame.data(), &head, sizeof head);
  return used;
}

std::variant<Announced, std::string> read_frame(std::span<const char> frame, std::uint64_t expected_sequence,
                                                const LaneLimits& limits) {
  STAGECRAFT_ASSERT(frame.size() == frame_bytes(limits), "a frame of {} bytes", frame.size());
  FrameHead head{};
  std::memcpy(&head, frame.data(), sizeof head);
  if (head.bytes < sizeof head || head.bytes > frame.size() || head.checksum != checksum_of(frame.first(head.bytes)))
    return "a frame whose checksum does not hold";
  if (head.sequence != expected_sequence)
    return fmt::format("parcel {} came where parcel {} was due", head.sequence, expected_sequence);
  if (head.header_bytes > limits.header.value)
    return fmt::format("a header of {} bytes was announced, over the limit of {}", head.header_bytes,
                       limits.header.value);
  if (head.payloads > limits.payloads)
    return fmt::format("{} payloads were announced, over the limit of {}", head.payloads, limits.payloads);
  Announced announced;
  std::uint64_t left = limits.payload.value;
  const char* at = frame.data() + sizeof head;
  for (std::uint32_t i = 0; i < head.payloads; ++i, at += sizeof(FrameEntry)) {
    FrameEntry entry{};
    std::memcpy(&entry, at, sizeof entry);
    if (entry.bytes > left)
      return fmt::format("payload {} of {} bytes was announced, over the limit of {} for all of a parcel", i,
                         entry.bytes, limits.payload.value);
    if (entry.bytes % sizeof(float) != 0) return fmt::format("payload {} of {} bytes is no floats", i, entry.bytes);
    left -= entry.bytes;
    announced.payloads.push_back({entry.bytes, Bytes{entry.charged}, nullptr});
  }
  FrameRoom room(limits);
  announced.header.resize(head.header_bytes);
  announced.header_follows = !room.takes(head.header_bytes);
  if (!announced.header_follows && head.header_bytes > 0) {
    std::memcpy(announced.header.data(), at, head.header_bytes);
    at += head.header_bytes;
  }
  for (auto& payload : announced.payloads)
    if (payload.bytes > 0 && room.takes(payload.bytes)) payload.inside = at, at += payload.bytes;
  if (at != frame.data() + head.bytes)
    return fmt::format("a frame of {} bytes, where what it announces makes {}", head.bytes, at - frame.data());
  return announced;
}

}  // namespace stagecraft
