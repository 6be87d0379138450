// Bytes for messages that leave a process, or a simulated node: two inspectors, one that writes and one that reads.
//
// Every value is written as the bytes it has in memory (little-endian, as on every machine that runs this), strings and
// containers after their length. The tensors of a message do not go into the bytes: they stand beside them, as
// payloads, and the bytes say how large they are. Both ends are of one build, so no type is named.
// Reading never trusts a length: what does not fit throws WireError before anything is allocated for it.
#pragma once

#include <caf/meta/type_name.hpp>

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "gpu/arena.hpp"

namespace stagecraft {

/// Bytes that are not what they should be.
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace wire {
template <class T>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
struct IsDuration : std::false_type {};
template <class Rep, class Period>
struct IsDuration<std::chrono::duration<Rep, Period>> : std::true_type {};
template <class Archive, class T>
concept Bulk = requires(Archive& f, T& x) {
  bulk(f, x);
};
}  // namespace wire

class WireWriter {
 public:
  using result_type = bool;
  static constexpr bool reads_state = true, writes_state = false;

  /// `payloads`: where tensors go; none: there may be none.
  explicit WireWriter(std::vector<char>& bytes, std::vector<Tensor>* payloads = nullptr)
      : bytes_(bytes), payloads_(payloads) {}

  template <class... Ts>
  bool operator()(const Ts&... xs) {
    (put(xs), ...);
    return true;
  }

 private:
  void put(const caf::meta::type_name_t&) {}
  void put(const std::string& x) {
    put_raw(static_cast<std::uint64_t>(x.size()));
    bytes_.insert(bytes_.end(), x.begin(), x.end());
  }
  template <class T>
  void put(const std::vector<T>& x) {
    put_raw(static_cast<std::uint64_t>(x.size()));
    if constexpr (wire::is_plain<T> && !std::is_same_v<T, bool>) {
      const auto* begin = reinterpret_cast<const char*>(x.data());
      bytes_.insert(bytes_.end(), begin, begin + x.size() * sizeof(T));
    } else {
      for (const T& each : x) put(each);
    }
  }
  template <class K, class V>
  void put(const std::map<K, V>& x) {
    put_raw(static_cast<std::uint64_t>(x.size()));
    for (const auto& [key, value] : x) put(key), put(value);
  }
  template <class T>
  void put(const std::optional<T>& x) {
    put(x.has_value());
    if (x) put(*x);
  }
  template <class T>
  void put(const std::shared_ptr<T>& x) {
    put(x != nullptr);
    if (x) put(*x);
  }
  // An emulated tensor is charged for more bytes than it has.
  void put(const Tensor& x) {
    if (!payloads_) throw WireError("a message without payloads holds a tensor");
    put(!x.empty());
    if (x.empty()) return;
    put_raw(static_cast<std::uint64_t>(x.size()));
    put_raw(x.buffer()->charged().value);
    if (x.size() > 0) payloads_->push_back(x);  // what is empty has nothing to send
  }
  template <class T>
  void put(const T& x) {
    if constexpr (wire::is_plain<T>) {
      put_raw(x);
    } else if constexpr (wire::IsDuration<T>::value) {
      put_raw(x.count());
    } else if constexpr (wire::Bulk<WireWriter, T>) {
      bulk(*this, const_cast<T&>(x));
    } else {
      inspect(*this, const_cast<T&>(x));  // inspectors take what they read from without const, too
    }
  }
  template <class T>
  void put_raw(const T& x) {
    const auto* begin = reinterpret_cast<const char*>(&x);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(T));
  }

  std::vector<char>& bytes_;
  std::vector<Tensor>* payloads_;
};

class WireReader {
 public:
  using result_type = bool;
  static constexpr bool reads_state = false, writes_state = true;

  WireReader(const char* bytes, std::size_t size, std::vector<Tensor>* payloads = nullptr)
      : next_(bytes), end_(bytes + size), payloads_(payloads) {}

  template <class... Ts>
  bool operator()(Ts&&... xs) {
    (get(xs), ...);
    return true;
  }
  /// Throws when something is left over.
  void finish() const {
    if (next_ != end_) throw WireError("a message is longer than it should be");
    if (payloads_ && used_ != payloads_->size()) throw WireError("a message has more payloads than it names");
  }

 private:
  void get(caf::meta::type_name_t&) {}
  void get(std::string& x) {
    const std::size_t n = get_length(1);
    x.assign(next_, n);
    next_ += n;
  }
  template <class T>
  void get(std::vector<T>& x) {
    if constexpr (wire::is_plain<T> && !std::is_same_v<T, bool>) {
      const std::size_t n = get_length(sizeof(T));
      x.resize(n);
      if (n > 0) std::memcpy(x.data(), next_, n * sizeof(T));
      next_ += n * sizeof(T);
    } else {
      const std::size_t n = get_length(1);
      x.clear();
      for (std::size_t i = 0; i < n; ++i) get(x.emplace_back());
    }
  }
  template <class K, class V>
  void get(std::map<K, V>& x) {
    const std::size_t n = get_length(1);
    x.clear();
    for (std::size_t i = 0; i < n; ++i) {
      K key{};
      get(key);
      get(x[key]);
    }
  }
  template <class T>
  void get(std::optional<T>& x) {
    bool there = false;
    get(there);
    x.reset();
    if (there) get(x.emplace());
  }
  template <class T>
  void get(std::shared_ptr<T>& x) {
    bool there = false;
    get(there);
    x.reset();
    if (!there) return;
    auto value = std::make_shared<std::remove_const_t<T>>();
    get(*value);
    x = std::move(value);
  }
  void get(Tensor& x);
  template <class T>
  void get(T& x) {
    if constexpr (std::is_same_v<T, bool>) {
      unsigned char raw = 0;
      get_raw(raw);
      if (raw > 1) throw WireError("a message holds a truth value of neither");
      x = raw == 1;
    } else if constexpr (wire::is_plain<T>) {
      get_raw(x);
    } else if constexpr (wire::IsDuration<T>::value) {
      typename T::rep count{};
      get_raw(count);
      x = T{count};
    } else if constexpr (wire::Bulk<WireReader, T>) {
      bulk(*this, x);
    } else {
      inspect(*this, x);
    }
  }
  template <class T>
  void get_raw(T& x) {
    if (static_cast<std::size_t>(end_ - next_) < sizeof(T)) throw WireError("a message is shorter than it should be");
    std::memcpy(&x, next_, sizeof(T));
    next_ += sizeof(T);
  }
  // Of what takes at least `each` bytes apiece.
  std::size_t get_length(std::size_t each) {
    std::uint64_t n = 0;
    get_raw(n);
    if (n > static_cast<std::size_t>(end_ - next_) / each)
      throw WireError("a message names " + std::to_string(n) + " entries and has " + std::to_string(end_ - next_) +
                      " bytes left");
    return n;
  }

  const char* next_;
  const char* end_;
  std::vector<Tensor>* payloads_;
  std::size_t used_ = 0;
};

inline void WireReader::get(Tensor& x) {
  bool there = false;
  get(there);
  x.reset();
  if (!there) return;
  std::uint64_t elements = 0, charged = 0;
  get_raw(elements);
  get_raw(charged);
  if (elements == 0) {
    x = Tensor(Arena::make("nothing", {})->allocate(0, Bytes{charged}), 0);
    return;
  }
  if (!payloads_ || used_ == payloads_->size()) throw WireError("a message names a payload that did not come");
  const Tensor& payload = (*payloads_)[used_++];
  if (payload.empty() || elements > payload.buffer()->size() / sizeof(float))
    throw WireError("a payload is smaller than its message says");
  if (charged == payload.buffer()->charged().value) {
    x = Tensor(payload.buffer(), elements);
  } else {
    x = Tensor(payload.buffer()->arena().allocate(payload.buffer()->size(), Bytes{charged}), elements);
    if (elements > 0) std::memcpy(x.data(), payload.data(), elements * sizeof(float));
  }
}

/// The wire form of a message without tensors.
template <class Message>
std::vector<char> to_bytes(const Message& message) {
  std::vector<char> bytes;
  bytes.reserve(128);  // most messages fit
  WireWriter write(bytes);
  write(message);
  return bytes;
}

/// Throws WireError.
template <class Message>
Message from_bytes(const std::vector<char>& bytes) {
  Message message{};
  WireReader read(bytes.data(), bytes.size());
  read(message);
  read.finish();
  return message;
}

}  // namespace stagecraft
