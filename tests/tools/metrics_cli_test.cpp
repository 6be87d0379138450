// What Prometheus gets from a running job.
#include <gtest/gtest.h>

#include "tests/tools/running_job.hpp"

namespace stagecraft::test {
namespace {

std::string got_from(const std::string& port, const std::string& request) {
  return run_command("timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + port + "; printf \"" + request +
                     "\" >&3; cat <&3' 2>&1")
      .output;
}

std::string get(const std::string& port, const std::string& path) {
  return got_from(port, "GET " + path + " HTTP/1.1\\r\\nHost: here\\r\\nConnection: close\\r\\n\\r\\n");
}

// Of the line that begins so.
double value_of(const std::string& text, const std::string& begin) {
  const std::size_t at = text.find("\n" + begin + " ");
  EXPECT_NE(at, std::string::npos) << begin << " in\n" << text;
  return at == std::string::npos ? -1 : std::stod(text.substr(at + begin.size() + 2));
}

TEST(Metrics, are_there_while_the_job_runs_and_say_where_it_stands) {
  const JobBeside job("run " + slow_job(2000) + " --fresh --metrics 0");
  ASSERT_TRUE(job.has_done(3)) << job.errors();
  const std::string words = "metrics at http://127.0.0.1:";
  const std::size_t at = job.errors().find(words);
  ASSERT_NE(at, std::string::npos) << job.errors();
  const std::string port =
      job.errors().substr(at + words.size(), job.errors().find('/', at + words.size()) - at - words.size());
  // Brought up to date a few times a second.
  const std::string iteration = "stagecraft_iteration{job=\"slow\"}";
  EXPECT_TRUE(soon([&] { return value_of(get(port, "/metrics"), iteration) >= 3; }));
  const std::string text = get(port, "/metrics");
  EXPECT_EQ(text.find("HTTP/1.1 200 OK"), 0U) << text;
  EXPECT_NE(text.find("text/plain; version=0.0.4"), std::string::npos) << text;
  EXPECT_EQ(value_of(text, "stagecraft_iterations_planned{job=\"slow\"}"), 2000);
  EXPECT_GT(value_of(text, "stagecraft_loss{job=\"slow\"}"), 0);
  EXPECT_EQ(value_of(text, "stagecraft_node_up{job=\"slow\",node=\"n1\"}"), 1);
  EXPECT_EQ(value_of(text, "stagecraft_paused{job=\"slow\"}"), 0);
  EXPECT_EQ(run("pause").code, 0);
  EXPECT_TRUE(soon([&] { return value_of(get(port, "/metrics"), "stagecraft_paused{job=\"slow\"}") == 1; }));
  EXPECT_EQ(get(port, "/other").find("HTTP/1.1 404"), 0U);
  EXPECT_NE(got_from(port, "rubbish\\r\\n\\r\\n"), text) << "and it goes on";
  EXPECT_EQ(get(port, "/metrics").find("HTTP/1.1 200 OK"), 0U);

  const Ran second = run("run " + slow_job(2000) + " --fresh --set job.name=other --metrics " + port);
  EXPECT_EQ(second.code, 2);
  EXPECT_TRUE(has(second, "can't listen on 127.0.0.1:" + port)) << second.output;
  EXPECT_EQ(run("stop").code, 0);
  EXPECT_EQ(job.code(), 5) << job.errors();
}

}  // namespace
}  // namespace stagecraft::test
