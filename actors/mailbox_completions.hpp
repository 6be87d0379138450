// Brings completions of a device into an actor's mailbox. Any thread.
#pragma once

#include "actors/messages.hpp"

namespace stagecraft {

template <class To>
class MailboxCompletions final : public Completions {
 public:
  explicit MailboxCompletions(To to) : to_(std::move(to)) {}
  void report(const Completion& completion, Duration delay) override {
    tell_from_outside(to_, OperatorDone{completion}, delay);
  }

 private:
  To to_;
};

}  // namespace stagecraft
