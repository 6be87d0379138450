#include "tools/control_desk.hpp"

#include <fmt/format.h>

#include "config/diagnostics.hpp"
#include "model/checkpoint/checkpoint_folder.hpp"
#include "tools/verb_parts.hpp"

namespace stagecraft::tools {

namespace {

constexpr std::size_t most_waiting = 64;
constexpr Duration word_every = std::chrono::seconds(1);

// A move is made or given up within these deadlines of the job; so is a checkpoint. After that nobody knows.
Duration longest_wait(const TimeoutsSpec& t) { return t.stage + 3 * t.iteration; }

std::string line_of(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string server_says(Outcome outcome, const std::string& text) {
  return line_of(Json{{"id", nullptr}, {"outcome", to_text(outcome)}, {"text", text}, {"data", Json::object()}});
}

// Numbers and short texts; anything else is not worth repeating.
Json id_of(const Json& request) {
  constexpr std::size_t longest = 64;
  const auto id = request.find("id");
  if (id == request.end()) return nullptr;
  const bool fine = id->is_number() || (id->is_string() && id->get_ref<const std::string&>().size() <= longest);
  return fine ? *id : Json();
}

// To whoever has asked for the end.
Answer end_answer(const JobEnded& end, const RunningJob& job) {
  Answer answer{Outcome::done, end.reason, Json{{"saved_iteration", end.saved_iteration}}};
  if (end.saved_iteration > 0) {
    const std::string path = job.checkpoint_folder() + "/" + StepFolder{end.saved_iteration}.name();
    answer.text += fmt::format("; the state after iteration {} is in '{}'", end.saved_iteration, path);
    answer.data["path"] = path;
  }
  if (!end.checkpoint_error.empty()) answer.text += "; the last checkpoint is not written: " + end.checkpoint_error;
  const bool well = end.ending == Ending::done || end.ending == Ending::stopped;
  if (!well || !end.checkpoint_error.empty()) answer.outcome = Outcome::given_up;
  return answer;
}

// To a request that the end of the job leaves open.
Answer last_answer(const Waiting& what, const RunningJob& job) {
  const bool for_the_end = !what.wish && !what.iteration;
  Answer answer = for_the_end ? end_answer(*job.end(), job)
                  : is_done(what.iteration, job)
                      ? where_it_stands(Outcome::done, job)
                      : Answer{Outcome::given_up, "the job has ended before that: " + job.end()->reason};
  answer.data["ended"] = true;
  return answer;
}

}  // namespace

ControlDesk::ControlDesk(std::string path, std::function<void(const std::string&)> say)
    : path_(std::move(path)), say_(std::move(say)) {}

void ControlDesk::attend(RunningJob& job) {
  if (!std::exchange(tried_, true)) open(job);
  if (!server_) return;
  for (const LineServer::Line& line : server_->take()) take(line, job);
  for (const WishAnswer& x : job.take_answers()) settle(x, job);
  look_at_waiting(job);
  if (job.end()) close(job);
}

void ControlDesk::open(RunningJob& job) {
  World& world = job.world();
  auto opened = LineServer::open(
      path_, {},
      {server_says(Outcome::bad_request, fmt::format("a line has more than {} bytes", LineServer::Limits{}.line)),
       server_says(Outcome::refused, fmt::format("{} others are connected already", LineServer::Limits{}.clients))},
      world, [&world] { world.news(); });
  if (const auto* why = std::get_if<std::string>(&opened))
    return say_(fmt::format("no control socket: {}; the job runs without, and answers no `stagecraft status`", *why));
  server_ = std::move(std::get<std::unique_ptr<LineServer>>(opened));
  say_(fmt::format("control socket {} (stagecraft status, migrate, stop, ...)", path_));
}

void ControlDesk::take(const LineServer::Line& line, RunningJob& job) {
  const Json request = Json::parse(line.text, nullptr, false);
  if (!request.is_object())
    return answer(line.client, nullptr,
                  {Outcome::bad_request,
                   fmt::format("expected an object such as {{\"id\": 1, \"verb\": \"status\"}} on one line, got {}",
                               stagecraft::quoted(line.text))});
  try {
    serve(line, request, job);
  } catch (const Json::exception& e) {
    answer(line.client, id_of(request), {Outcome::bad_request, e.what()});
  }
}

void ControlDesk::serve(const LineServer::Line& line, const Json& request, RunningJob& job) {
  const Json id = id_of(request);
  const auto name = request.find("verb");
  const std::string text = name != request.end() && name->is_string() ? name->get<std::string>() : std::string();
  const Verb* verb = find_verb(text);
  if (!verb || !verb->serve)
    return answer(line.client, id,
                  {Outcome::bad_request,
                   verb ? fmt::format("{} is what a client does, by asking other verbs", stagecraft::quoted(text))
                        : fmt::format("there is no verb {}{}", stagecraft::quoted(text), did_you_mean_verb(text))});
  if (waiting_.size() >= most_waiting)
    return answer(line.client, id,
                  {Outcome::refused, fmt::format("{} requests wait already; try again later", waiting_.size())});
  Served served = verb->serve(request.value("arguments", Json::object()), job, line.process);
  if (const auto* at_once = std::get_if<Answer>(&served)) return answer(line.client, id, *at_once);
  const Instant now = job.world().now();
  const Waiting& what = std::get<Waiting>(served);
  waiting_.push_back({line.client, id, verb, what, now,
                      now + what.within.value_or(longest_wait(job.topology().timeouts)), now + word_every});
}

void ControlDesk::settle(const WishAnswer& x, const RunningJob& job) {
  const auto asked =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Request& r) { return r.what.wish == x.wish; });
  if (asked == waiting_.end()) return;  // it was answered already: too late
  answer(asked->client, asked->id, settled(*asked->verb, x, job));
  waiting_.erase(asked);
}

void ControlDesk::look_at_waiting(const RunningJob& job) {
  const Instant now = job.world().now();
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const bool is_so = is_done(it->what.iteration, job);
    if (is_so || now >= it->until) {
      answer(it->client, it->id, is_so ? where_it_stands(Outcome::done, job) : late_answer(*it, job));
      it = waiting_.erase(it);
      continue;
    }
    if (now >= it->next_word) {
      it->next_word = now + word_every;
      const std::uint32_t iteration = job.newest() ? job.newest()->iteration.value : job.start().value;
      server_->send(
          it->client,
          line_of(Json{{"id", it->id},
                       {"waiting", fmt::format("{} since {:.0f} s; iteration {} is done", it->verb->name,
                                               std::chrono::duration<double>(now - it->since).count(), iteration)}}),
          false);
    }
    ++it;
  }
}

Answer ControlDesk::late_answer(const Request& request, const RunningJob& job) {
  if (request.what.within) return where_it_stands(Outcome::late, job);
  return {Outcome::late, fmt::format("not decided within {}; it may still be done: ask for the status later",
                                     format(request.until - request.since))};
}

void ControlDesk::close(const RunningJob& job) {
  for (const Request& r : waiting_) answer(r.client, r.id, last_answer(r.what, job));
  waiting_.clear();
  server_.reset();
}

void ControlDesk::answer(std::uint64_t client, const Json& id, const Answer& answer) {
  server_->send(
      client,
      line_of(Json{{"id", id}, {"outcome", to_text(answer.outcome)}, {"text", answer.text}, {"data", answer.data}}),
      true);
}

}  // namespace stagecraft::tools
