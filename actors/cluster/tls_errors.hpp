// OpenSSL keeps a queue of errors per thread, and whoever asks what became of a read or a write must have emptied it
// before. CAF 0.17 does not: what goes wrong on one connection (a peer that was killed, a stranger that hung up) then
// closes the next one that has nothing to read, whosever it is.
#pragma once

namespace stagecraft {

/// This program's SSL_read and SSL_write empty the queue first; CAF's library calls them. True when that is so.
bool tls_errors_stay_apart();

}  // namespace stagecraft
