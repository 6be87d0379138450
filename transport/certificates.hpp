// The private certificate authority of a job, and the certificates by which its nodes know each other. X.509 v3, keys
// on the curve P-256, PEM texts. Errors are texts that say what is wrong, in words and with dates.
//
// Who knocks: `stagecraft certificate`, which makes them; a node, which checks its own before it uses them. What it
// never does: touch a file, look at a clock, print. Private keys are values here: who writes them keeps them to their
// owner. Thread promise: stateless; any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace stagecraft {

/// A point of calendar time, UTC.
using CalendarTime = std::chrono::sys_seconds;

/// Two PEM texts that belong together.
struct Credentials {
  std::string certificate;
  std::string key;  ///< PKCS #8, without a passphrase: secret
};
using CredentialsResult = std::variant<Credentials, std::string>;

/// A new authority for a job, which can sign nodes and no other authorities, for `days` from `now` on. Valid from an
/// hour before `now`, since clocks differ.
CredentialsResult make_authority(const std::string& job, int days, CalendarTime now);

/// A new certificate with which a node is client and server: its name is the subject's common name and the first of its
/// alternative names, then come `addresses`, numeric or names of hosts. It ends when the authority does, if that is
/// sooner.
CredentialsResult make_node_certificate(const Credentials& authority, const std::string& node,
                                        const std::vector<std::string>& addresses, int days, CalendarTime now);

/// What keeps a node from using these at `now`; empty when nothing does. Checked in this order: that each text is what
/// it should be, the dates, that this authority signed the certificate, that the key is the certificate's.
std::optional<std::string> check_certificates(const std::string& authority_certificate, const std::string& certificate,
                                              const std::string& key, CalendarTime now);

/// When a certificate ends; empty when the text is none.
std::optional<CalendarTime> end_of_certificate(const std::string& certificate);
/// "2026-05-01 12:00 UTC".
std::string to_text(CalendarTime time);

}  // namespace stagecraft
