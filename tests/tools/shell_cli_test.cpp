// The shell: scripts from a file and from standard input, and a person at a terminal.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>

#include <filesystem>

#include "tests/tools/running_job.hpp"

namespace stagecraft::test {
namespace {

// Somebody at a terminal.
class Typist {
 public:
  explicit Typist(const std::vector<std::string>& arguments) {
    process_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (process_ != 0) return;
    setenv("HOME", std::filesystem::current_path().c_str(), 1);
    setenv("TERM", "xterm", 1);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(STAGECRAFT_BINARY, argv.data());
    _exit(127);
  }
  ~Typist() {
    if (!ended_) kill(process_, SIGKILL);
    if (!ended_) waitpid(process_, nullptr, 0);
    close(terminal_);
  }
  Typist(const Typist&) = delete;
  Typist& operator=(const Typist&) = delete;

  void type(const std::string& keys) const {
    EXPECT_EQ(::write(terminal_, keys.data(), keys.size()), ssize_t(keys.size()));
  }
  /// What has appeared since the last call, once `text` has.
  bool sees(const std::string& text) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < until) {
      const std::size_t at = seen_.find(text);
      if (at != std::string::npos) {
        seen_.erase(0, at + text.size());
        return true;
      }
      pollfd polled{terminal_, POLLIN, 0};
      char piece[4096];
      if (poll(&polled, 1, 100) <= 0) continue;
      const ssize_t size = read(terminal_, piece, sizeof piece);
      if (size <= 0) break;
      seen_.append(piece, static_cast<std::size_t>(size));
    }
    ADD_FAILURE() << "'" << text << "' did not appear, but:\n" << seen_;
    return false;
  }
  int code() {
    int status = 0;
    EXPECT_TRUE(soon([&] {
      ended_ = ended_ || waitpid(process_, &status, WNOHANG) == process_;
      return ended_;
    }));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_ = 0;
  int terminal_ = -1;
  bool ended_ = false;
  std::string seen_;
};

void write_script(const std::string& text) { std::ofstream("script.txt") << text; }

TEST(Shell, runs_a_script_and_its_first_line_that_fails_decides) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  write_script(
      "# what there is\nstatus\n\nlist stages   # three\nmigrate layers 1 to stage/1\nget stage/1\nquit\nstop\n");
  const Ran fine = run("shell --script script.txt");
  EXPECT_EQ(fine.code, 0) << fine.output;
  EXPECT_TRUE(has(fine, "move 1 is made: layout [1, 3, 1]")) << fine.output;
  EXPECT_TRUE(has(fine, "layers      1-3")) << fine.output;
  EXPECT_FALSE(job.has_ended()) << "nothing behind quit is obeyed";

  write_script("status\nmigrate layers 0 to stage/2\nstop\n");
  const Ran refused = run("shell --script script.txt");
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(has(refused, "script.txt:2: this line failed (2): migrate layers 0 to stage/2")) << refused.output;
  const Ran piped = run_command("printf 'status\\nstatsu\\nstop\\n' | " STAGECRAFT_BINARY " shell 2>&1");
  EXPECT_EQ(piped.code, 2);
  EXPECT_TRUE(has(piped, "'statsu'; did you mean 'status'?")) << piped.output;
  EXPECT_TRUE(has(piped, "standard input:2: this line failed (2): statsu")) << piped.output;
  EXPECT_FALSE(job.has_ended());
  const Ran stop = run_command("printf 'watch 1\\nstop\\nstatus\\n' | " STAGECRAFT_BINARY " shell --json 2>/dev/null");
  EXPECT_TRUE(stop.code == 2 || stop.code == 3) << "nobody answers, or whoever does is about to end: " << stop.code;
  const auto lines = std::count(stop.output.begin(), stop.output.end(), '\n');
  EXPECT_TRUE(lines == 2 || (lines == 3 && has(stop, "unreachable"))) << stop.output;
  EXPECT_EQ(job.code(), 5);
}

TEST(Shell, starts_a_job_of_its_own_and_ends_it_with_itself) {
  const std::string file = slow_job(2000);
  write_script("status\nmigrate layers 1 to stage/1\n");
  const Ran ran = run("shell " + file + " --fresh --script script.txt");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "move 1 is made: layout [1, 3, 1]")) << ran.output;
  EXPECT_TRUE(has(ran, "stopped on request after")) << ran.output;
  EXPECT_EQ(run("checkpoint verify checkpoints/slow").code, 0);
  const Ran bad = run("shell " + file + " --set model.layers=none --script script.txt");
  EXPECT_EQ(bad.code, 2);
  const Ran ended = run("shell " + file + " --script script.txt");
  EXPECT_EQ(ended.code, 3) << "there are checkpoints, and nobody said what is to become of them";
  EXPECT_TRUE(has(ended, "the job ended before it could be asked anything")) << ended.output;
}

TEST(Shell, keeps_what_was_obeyed_as_a_script) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  write_script(
      "wait iteration 2   # at least\nhelp wait\nmigrate layers 1 to stage/1\nsave again.txt\n"
      "migrate layers 1 to stage/0\nsave more.txt\nsave again.txt\n");
  const Ran first = run("shell -f script.txt");
  EXPECT_EQ(first.code, 2) << first.output;
  EXPECT_TRUE(has(first, "2 lines kept in 'again.txt'") && has(first, "3 lines kept in 'more.txt'")) << first.output;
  EXPECT_TRUE(has(first, "save: 'again.txt' is there already, and nothing is written over")) << first.output;
  const std::string kept = text_of("again.txt"), comment = kept.substr(0, kept.find('\n'));
  EXPECT_EQ(kept.substr(comment.size()), "\nwait iteration 2\nmigrate layers 1 to stage/1\n");
  EXPECT_TRUE(comment.starts_with("# 2") && comment.find(" UTC, job slow, after iteration ") != std::string::npos &&
              comment.ends_with(" of 2000, at '" + job.socket() + "'"))
      << comment;
  EXPECT_EQ(run("shell -f again.txt").code, 0) << "the layer is where it was at first";

  EXPECT_TRUE(has(run_command("printf 'save none.txt' | " STAGECRAFT_BINARY " shell 2>&1"),
                  "save: there is nothing to keep: no line has been obeyed yet"));
  EXPECT_TRUE(has(run_command("printf 'status\nsave no/such/folder' | " STAGECRAFT_BINARY " shell 2>&1"),
                  "save: cannot write 'no/such/folder': No such file or directory"));
  const Ran full = run_command("printf 'status\nsave /dev/full' | " STAGECRAFT_BINARY " shell 2>&1");
  EXPECT_TRUE(has(full, "'/dev/full' is there already")) << full.output;
  EXPECT_FALSE(std::filesystem::exists("none.txt"));

  Typist typist({"stagecraft", "shell", "--json"});
  typist.sees("stagecraft> ");
  for (const char* line : {"statsu", "expect moves = 77", "wait 1ms", "save", "save typed.txt"}) {
    typist.type(std::string(line) + "\n");
    typist.sees("stagecraft> ");
  }
  typist.type("quit\n");
  EXPECT_EQ(typist.code(), 0);
  const std::string typed = text_of("typed.txt");
  EXPECT_EQ(typed.substr(std::min(typed.find('\n'), typed.size())), "\nwait 1ms\n");
}

TEST(Shell, the_example_of_a_script_moves_a_layer_and_looks) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  const Ran ran = run("shell -f " + example("shell/move-and-look.txt"));
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "as expected moves = 1, got 1, after iteration ")) << ran.output;
  const Ran again = run("shell -f " + example("shell/move-and-look.txt"));
  EXPECT_EQ(again.code, 1) << again.output;
  EXPECT_TRUE(has(again, "move-and-look.txt:4: this line failed (1): expect moves = 0")) << again.output;
}

TEST(Shell, without_a_job_or_a_script_says_so) {
  EXPECT_EQ(run("shell --socket nowhere.sock </dev/null").code, 2);
  const Ran ran = run("shell --script nowhere.txt");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran, "cannot read the script 'nowhere.txt'")) << ran.output;
}

TEST(Shell, completes_remembers_and_survives_what_happens_to_its_job) {
  std::optional<JobBeside> job;
  job.emplace("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job->has_done(1)) << job->errors();
  Typist typist({"stagecraft", "shell"});
  typist.sees("stagecraft> ");
  typist.type("stat\t\n");
  typist.sees("job slow: iteration ");
  typist.type("list \t");
  typist.sees("actors  devices  faults  links  nodes  stages");
  typist.type("sta\t\n");
  typist.sees("stage/2");
  typist.type("get node/n\t");
  typist.sees("node/n0  node/n1  node/n2");
  typist.type("1\n");
  typist.sees("state       up");
  typist.type("statsu\n");
  typist.sees("did you mean 'status'?");
  typist.type("wait iter\t1 wi\t1h\n");
  typist.sees("; since the last iteration: ");
  typist.type("help migr\n");
  typist.sees("for example: migrate layers 3-4 to stage/1");
  typist.type("watch\n");
  typist.sees("job slow: iteration ");
  typist.type("\003");
  typist.sees("stagecraft> ");
  kill(job->process(), SIGKILL);
  EXPECT_TRUE(job->code() != 0);
  typist.type("status\n");
  typist.sees("nobody answers at");
  typist.type("\020\020\n");  // the line before that one
  typist.sees("stagecraft> ");
  typist.type("quit\n");
  EXPECT_EQ(typist.code(), 0);
  EXPECT_NE(text_of(".stagecraft_history").find("help"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft::test
