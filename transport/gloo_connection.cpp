// Gloo's headers stand here and nowhere else; those of its TCP pairs do not compile as they are packaged.
//
// A device, that is a thread with its epoll loop, per connection: with one device for two, small messages waited for
// the stream on the other (4 KiB there and back beside a stream of 16 MiB: 3.4 ms, with a device of their own 0.44 ms).
// It costs a wake-up every 10 ms.
#include "transport/gloo_connection.hpp"

#include <pthread.h>

#include <chrono>

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "planning/bug.hpp"
#include "transport/socket_address.hpp"

namespace stagecraft {

namespace {

namespace tcp = gloo::transport::tcp;

// A timeout of Gloo's is no way out, it closes the pair.
constexpr std::chrono::milliseconds forever = std::chrono::hours(24 * 365);

}  // namespace

PostedBuffer::PostedBuffer(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, int peer)
    : buffer_(std::move(buffer)), peer_(peer) {}
PostedBuffer::~PostedBuffer() = default;
void PostedBuffer::receive(std::uint64_t slot) { buffer_->recv(peer_, slot); }
void PostedBuffer::send(std::uint64_t slot) { buffer_->send(peer_, slot); }
void PostedBuffer::send(std::uint64_t slot, std::size_t bytes) { buffer_->send(peer_, slot, 0, bytes); }
bool PostedBuffer::wait() { return buffer_->waitRecv(forever); }
void PostedBuffer::break_off() { buffer_->abortWaitRecv(); }

GlooConnection::GlooConnection(const std::string& listen, int rank) : peer_(1 - rank) {
  const WithoutSigpipe guard;
  tcp::attr where;
  where.hostname = listen;
  device_ = tcp::CreateDevice(where);
  // A context of its own: in one that is used again, credits of the old pair would count for the new one.
  context_ = device_->createContext(rank, 2);
  context_->setTimeout(forever);
  auto& pair = context_->createPair(peer_);
  pair->setLocalRank(0);
  address_ = to_text(tcp::Address(pair->address().bytes()).getSockaddr());
}
GlooConnection::~GlooConnection() = default;

void GlooConnection::connect(const std::string& peer_address) {
  const auto where = parse_socket_address(peer_address);
  STAGECRAFT_ASSERT(where, "'{}' was not checked", peer_address);
  context_->getPair(peer_)->connect(tcp::Address(*where).bytes());
}

void GlooConnection::hang_up() noexcept {
  try {
    context_->getPair(peer_)->close();
  } catch (const std::exception&) {
    // It is closed already.
  }
}

std::unique_ptr<PostedBuffer> GlooConnection::buffer(void* at, std::size_t bytes) {
  return std::make_unique<PostedBuffer>(context_->createUnboundBuffer(at, bytes), peer_);
}

WithoutSigpipe::WithoutSigpipe() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before_);
}
WithoutSigpipe::~WithoutSigpipe() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

// "[./gloo/transport/tcp/pair.cc:598] Connection closed by peer ..."
std::string said_by_gloo(const std::exception& e) {
  const std::string text = e.what();
  const std::size_t end = text.find("] ");
  return text.starts_with('[') && end != std::string::npos ? text.substr(end + 2) : text;
}

}  // namespace stagecraft
