// Numeric socket addresses and their text, "10.0.0.1:4000" or "[fd00::1]:4000". Stateless; any thread.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <variant>

namespace stagecraft {

/// Of an IPv4 or IPv6 address; empty for any other.
std::string to_text(const sockaddr_storage& address);
/// Empty when the text is no numeric address with a port from 1 to 65535.
std::optional<sockaddr_storage> parse_socket_address(const std::string& text);
/// The part before the port, without brackets.
std::string host_text(const sockaddr_storage& address);
/// The first address of `host`, a name or a numeric address, at which this machine can listen, or why there is none.
/// Not that of all interfaces. Blocks while a name is looked up.
std::variant<sockaddr_storage, std::string> own_address(const std::string& host);

}  // namespace stagecraft
