// One connection of Gloo's, and all that this program sees of it: a device, a context of two ranks and one pair,
// without a name of Gloo's in the header. Buffers throw what Gloo throws (std::exception) when the connection is
// broken.
//
// Who knocks: the lane. What it never does: decide anything.
// Thread promise: any thread; one buffer has one user, but for break_off().
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

namespace gloo::transport {
class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace stagecraft {

/// Memory that a message is sent from or comes to. Both must outlive what is posted. One operation at a time, but for
/// sends of which the caller knows otherwise that they are done.
class PostedBuffer {
 public:
  explicit PostedBuffer(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, int peer);
  ~PostedBuffer();
  PostedBuffer(const PostedBuffer&) = delete;
  PostedBuffer& operator=(const PostedBuffer&) = delete;

  /// Of the whole buffer, or of its first bytes; return at once. A message may be shorter than the receive that it
  /// meets. One that is longer ends the receiving process, in Gloo: both sides must know the size beforehand.
  void receive(std::uint64_t slot);
  void send(std::uint64_t slot);
  void send(std::uint64_t slot, std::size_t bytes);
  /// Blocks until what was to be received is there, or break_off(): then false.
  bool wait();
  /// Ends a wait, or the next one.
  void break_off();

 private:
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  int peer_;
};

class GlooConnection {
 public:
  /// Listens on a numeric address, for the peer, or for who comes first. Throws when that can't be done.
  GlooConnection(const std::string& listen, int rank);
  /// All buffers must have gone, and before them the connection must have been hung up.
  ~GlooConnection();
  GlooConnection(const GlooConnection&) = delete;
  GlooConnection& operator=(const GlooConnection&) = delete;

  const std::string& address() const { return address_; }
  /// Blocks until connected, or hang_up(). Of the two addresses the greater one connects, the other one accepts.
  void connect(const std::string& peer_address);
  /// The peer sees a reset. Ends a connect() that is under way, but no PostedBuffer::wait().
  void hang_up() noexcept;
  std::unique_ptr<PostedBuffer> buffer(void* at, std::size_t bytes);

 private:
  int peer_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::string address_;
};

/// Gloo writes without MSG_NOSIGNAL. While this lives, its thread and those that it makes do not take SIGPIPE.
class WithoutSigpipe {
 public:
  WithoutSigpipe();
  ~WithoutSigpipe();
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t before_{};
};

/// What an exception of Gloo's says, without where in Gloo it says it.
std::string said_by_gloo(const std::exception& e);

}  // namespace stagecraft
