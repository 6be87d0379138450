// `stagecraft certificate`: what it writes, for whose eyes, and what it refuses.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

namespace fs = std::filesystem;

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int mode_of(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 ? static_cast<int>(about.st_mode & 0777) : -1;
}

struct CertificateCommand : testing::Test {
  ~CertificateCommand() override { fs::remove_all(folder); }
  const std::string folder = temporary("certificates");
  Ran make(const std::string& more = "", const std::string& streams = "2>&1") const {
    return run("certificate " + example("two-nodes.yaml") + " --out " + folder + " " + more, streams);
  }
  bool verifies(const std::string& node) const {
    return run_command("openssl verify -x509_strict -purpose sslserver -CAfile " + folder + "/ca.pem " + folder + "/" +
                       node + ".pem 2>&1")
               .code == 0;
  }
};

TEST_F(CertificateCommand, every_node_gets_a_certificate_and_a_key_that_only_its_owner_reads) {
  const Ran ran = make();
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "job two-nodes: 2 certificates")) << ran.output;
  for (const char* name : {"ca", "left", "right"}) {
    EXPECT_EQ(mode_of(folder + "/" + name + ".key"), 0600) << name;
    EXPECT_NE(content(folder + "/" + name + ".key").find("BEGIN PRIVATE KEY"), std::string::npos);
    EXPECT_NE(content(folder + "/" + name + ".pem").find("BEGIN CERTIFICATE"), std::string::npos);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 6);
}

TEST_F(CertificateCommand, openssl_verifies_them_too) {
  if (run_command("openssl version 2>&1").code != 0) GTEST_SKIP() << "there is no openssl command";
  ASSERT_EQ(make().code, 0);
  EXPECT_TRUE(verifies("left"));
  EXPECT_TRUE(verifies("right"));
  const Ran text = run_command("openssl x509 -noout -text -in " + folder + "/left.pem");
  EXPECT_TRUE(has(text, "DNS:left, IP Address:127.0.0.1")) << text.output;
}

TEST_F(CertificateCommand, what_is_there_stays_unless_forced) {
  ASSERT_EQ(make().code, 0);
  const std::string before = content(folder + "/left.key");
  const Ran again = make();
  EXPECT_EQ(again.code, 2);
  EXPECT_TRUE(has(again, "is there already, and nothing is written over")) << again.output;
  EXPECT_EQ(content(folder + "/left.key"), before);
  EXPECT_EQ(make("--force").code, 0);
  EXPECT_NE(content(folder + "/left.key"), before);
  EXPECT_EQ(mode_of(folder + "/left.key"), 0600);
}

TEST_F(CertificateCommand, one_node_more_is_signed_by_the_authority_that_is_there) {
  ASSERT_EQ(make().code, 0);
  const std::string authority = content(folder + "/ca.key"), left = content(folder + "/left.pem");
  fs::remove(folder + "/right.pem");
  fs::remove(folder + "/right.key");
  const Ran ran = make("--node right --json", "");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto json = nlohmann::json::parse(ran.output);
  ASSERT_EQ(json["nodes"].size(), 1U);
  EXPECT_EQ(json["nodes"][0]["name"], "right");
  EXPECT_EQ(json["nodes"][0]["key"], folder + "/right.key");
  EXPECT_EQ(json["authority"]["certificate"], folder + "/ca.pem");
  EXPECT_EQ(content(folder + "/ca.key"), authority);
  EXPECT_EQ(content(folder + "/left.pem"), left);
  if (run_command("openssl version 2>&1").code == 0) {
    EXPECT_TRUE(verifies("right"));
  }
}

TEST_F(CertificateCommand, bad_usage_ends_with_2_and_leaves_nothing) {
  const auto refuses = [&](const std::string& more, const std::string& why) {
    const Ran ran = make(more);
    EXPECT_EQ(ran.code, 2) << ran.output;
    EXPECT_TRUE(has(ran, why)) << ran.output;
    EXPECT_FALSE(fs::exists(folder));
  };
  refuses("--node middle", "there is no node 'middle'");
  refuses("--node left", "make it first, without --node");
  refuses("--set nodes.0.name=ca", "would take the files of the authority");
  refuses("--days 0", "--days");
  EXPECT_EQ(run("certificate " + example("two-nodes.yaml")).code, 2);
  EXPECT_EQ(run("certificate nowhere.yaml --out x").code, 2);
}

TEST_F(CertificateCommand, an_authority_that_is_damaged_ends_with_3) {
  ASSERT_EQ(make().code, 0);
  fs::remove(folder + "/left.pem");
  fs::remove(folder + "/left.key");
  fs::copy_file(folder + "/right.key", folder + "/ca.key", fs::copy_options::overwrite_existing);
  const Ran ran = make("--node left");
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(has(ran, "the authority's key does not belong to its certificate")) << ran.output;
}

}  // namespace
}  // namespace stagecraft::test
