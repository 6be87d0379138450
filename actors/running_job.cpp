#include "actors/running_job.hpp"

namespace stagecraft {

RunningJob::RunningJob(const Job& job, const Cast& cast, Outbox& outbox)
    : job_(job), cast_(cast), outbox_(outbox), began_(job.world.now()), layout_(job.topology.pipeline.layout) {}

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

void RunningJob::stop() {
  if (!std::exchange(stopping_, true)) tell_from_outside(cast_.coordinator(), Stop{});
}

std::vector<WishAnswer> RunningJob::take_answers() {
  std::vector<WishAnswer> answers = outbox_.take_answers();
  for (const WishAnswer& answer : answers) {
    if (answer.layout.empty() || answer.layout == layout_) continue;
    layout_ = answer.layout;
    ++moves_;
  }
  return answers;
}

void RunningJob::note(const IterationReport& report) {
  newest_ = report;
  layout_ = report.layout;
  moves_ = report.moves;
}

void RunningJob::note_end(const JobEnded& end) {
  end_ = JobEnded{end.ending, end.reason, {}, end.saved_iteration, end.checkpoint_error, end.plan, end.moves};
}

}  // namespace stagecraft
