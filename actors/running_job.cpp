#include "actors/running_job.hpp"

namespace stagecraft {

RunningJob::RunningJob(const Job& job, const Cast& cast, Outbox& outbox)
    : job_(job), cast_(cast), outbox_(outbox), began_(job.world.now()), layout_(job.topology.pipeline.layout) {}

std::map<std::string, std::uint32_t> RunningJob::actors() const {
  std::map<std::string, std::uint32_t> names;
  for (const Watched& w : cast_.all()) ++names[w.name];
  return names;
}

WishId RunningJob::move(Move wish) {
  wish.at = {};
  wish.wish = {++last_wish_.value};
  tell_from_outside(cast_.migrator(), std::move(wish));
  return last_wish_;
}

WishId RunningJob::keep_checkpoint() {
  ++last_wish_.value;
  tell_from_outside(cast_.coordinator(), KeepCheckpoint{last_wish_});
  return last_wish_;
}

WishId RunningJob::pause(std::string who) {
  tell_from_outside(cast_.coordinator(), Pause{{++last_wish_.value}, std::move(who)});
  pauses_.insert(last_wish_);
  return last_wish_;
}

WishId RunningJob::resume(std::string who) {
  tell_from_outside(cast_.coordinator(), Resume{{++last_wish_.value}, std::move(who)});
  resumes_.insert(last_wish_);
  return last_wish_;
}

WishId RunningJob::ask_waits() {
  tell_from_outside(cast_.coordinator(), AskWaits{{++last_wish_.value}});
  return last_wish_;
}

WishId RunningJob::ask_top() {
  tell_from_outside(cast_.monitor(), AskTop{{++last_wish_.value}});
  return last_wish_;
}

WishId RunningJob::ask_plan() {
  tell_from_outside(cast_.coordinator(), AskPlan{{++last_wish_.value}});
  return last_wish_;
}

WishId RunningJob::ask_events(AskEvents query) {
  query.wish = {++last_wish_.value};
  tell_from_outside(cast_.recorder(), std::move(query));
  return last_wish_;
}

WishId RunningJob::change_setting(std::string name, double value, std::string who) {
  tell_from_outside(cast_.monitor(), ChangeSetting{{++last_wish_.value}, std::move(name), value, std::move(who)});
  return last_wish_;
}

WishId RunningJob::inject(FaultSpec fault, std::string who) {
  tell_from_outside(cast_.injector(), InjectFault{{++last_wish_.value}, std::move(fault), std::move(who)});
  return last_wish_;
}

WishId RunningJob::heal(std::string id, std::string who) {
  tell_from_outside(cast_.injector(), HealFault{{++last_wish_.value}, std::move(id), std::move(who)});
  return last_wish_;
}

void RunningJob::stop() {
  if (!std::exchange(stopping_, true)) tell_from_outside(cast_.coordinator(), Stop{});
}

std::vector<WishAnswer> RunningJob::take_answers() {
  std::vector<WishAnswer> answers = outbox_.take_answers();
  for (const WishAnswer& answer : answers) {
    const bool done = answer.fate == WishAnswer::Fate::done;
    if (pauses_.erase(answer.wish) > 0 && done) paused_ = true;
    if (resumes_.erase(answer.wish) > 0 && done) {
      paused_ = false;
      resumed_ = job_.world.now();
    }
    if (answer.layout.empty() || answer.layout == layout_) continue;
    layout_ = answer.layout;
    ++moves_;
  }
  return answers;
}

void RunningJob::note(const IterationReport& report) {
  newest_ = report;
  paused_ = false;
  layout_ = report.layout;
  moves_ = report.moves;
}

void RunningJob::note_end(const JobEnded& end) {
  end_ = JobEnded{end.ending, end.reason, {}, end.saved_iteration, end.checkpoint_error, end.plan, end.moves};
}

}  // namespace stagecraft
