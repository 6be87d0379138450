// Brings completions of a device into an actor's mailbox, and its idle thread to the actors. Any thread.
#pragma once

#include "actors/messages.hpp"
#include "actors/world/world.hpp"

namespace stagecraft {

template <class To>
class MailboxCompletions final : public Completions {
 public:
  MailboxCompletions(World& world, To to) : world_(world), to_(std::move(to)) {}
  void report(const Completion& completion, Duration delay) override {
    tell_from_outside(to_, OperatorDone{completion}, delay);
  }
  void lend_thread(const std::function<bool()>& wanted_back) override { world_.help_actors(wanted_back); }

 private:
  World& world_;
  To to_;
};

}  // namespace stagecraft
