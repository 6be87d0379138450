#include "transport/certificates.hpp"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>

#include <set>

#include "transport/openssl_handles.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr CalendarTime noon = std::chrono::sys_days(std::chrono::year(2026) / 5 / 1) + 12h;

Credentials made(CredentialsResult result) {
  auto* credentials = std::get_if<Credentials>(&result);
  if (credentials == nullptr) ADD_FAILURE() << std::get<std::string>(result);
  return credentials == nullptr ? Credentials{} : std::move(*credentials);
}
std::string refused(const CredentialsResult& result) {
  const auto* why = std::get_if<std::string>(&result);
  return why == nullptr ? "it was made" : *why;
}

X509Ref parse(const std::string& pem) {
  const BioRef bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return X509Ref(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

std::vector<std::string> alternative_names(const X509* certificate) {
  const NamesRef names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> texts;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int kind = 0;
    const auto* value =
        static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &kind));
    const std::string bytes(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                            static_cast<std::size_t>(ASN1_STRING_length(value)));
    texts.push_back(kind == GEN_DNS ? bytes : "IP of " + std::to_string(bytes.size()) + " bytes");
  }
  return texts;
}

struct Certificates : testing::Test {
  Credentials authority = made(make_authority("quickstart", 365, noon));
  Credentials node =
      made(make_node_certificate(authority, "n0", {"10.0.0.1", "fd00::1", "host.example", "n0"}, 90, noon));
  std::string flaw(CalendarTime now = noon) const {
    return check_certificates(authority.certificate, node.certificate, node.key, now).value_or("");
  }
};

TEST_F(Certificates, what_was_made_is_sound_from_an_hour_before_to_its_last_day) {
  EXPECT_EQ(flaw(), "");
  EXPECT_EQ(flaw(noon - 1h), "");
  EXPECT_EQ(flaw(noon + days(90) - 1s), "");
  EXPECT_EQ(end_of_certificate(node.certificate), noon + days(90));
  EXPECT_EQ(end_of_certificate(authority.certificate), noon + days(365));
  EXPECT_EQ(end_of_certificate("nonsense"), std::nullopt);
}

TEST_F(Certificates, a_nodes_certificate_names_it_and_where_it_listens) {
  const X509Ref certificate = parse(node.certificate);
  ASSERT_TRUE(certificate);
  EXPECT_THAT(alternative_names(certificate.get()),
              ElementsAre("n0", "IP of 4 bytes", "IP of 16 bytes", "host.example"));
  EXPECT_EQ(X509_check_host(certificate.get(), "host.example", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(certificate.get(), "other.example", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "10.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "10.0.0.2", 0), 0);
  std::array<char, 70> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name.data(), name.size());
  EXPECT_STREQ(name.data(), "n0");
}

TEST_F(Certificates, openssl_takes_it_for_client_and_server_and_not_for_an_authority) {
  const X509Ref certificate = parse(node.certificate), issuer = parse(authority.certificate);
  const auto fits = [&](int purpose) {
    const StoreRef store(X509_STORE_new());
    X509_STORE_add_cert(store.get(), issuer.get());
    const StoreContextRef context(X509_STORE_CTX_new());
    X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr);
    X509_STORE_CTX_set_time(context.get(), 0, noon.time_since_epoch().count());
    X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
    X509_STORE_CTX_set_purpose(context.get(), purpose);
    return X509_verify_cert(context.get()) == 1;
  };
  EXPECT_TRUE(fits(X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(fits(X509_PURPOSE_SSL_CLIENT));
  EXPECT_FALSE(fits(X509_PURPOSE_SMIME_SIGN));
  EXPECT_EQ(X509_check_ca(certificate.get()), 0);
  EXPECT_EQ(X509_check_ca(issuer.get()), 1);
  EXPECT_EQ(X509_get_pathlen(issuer.get()), 0);
}

TEST_F(Certificates, no_two_are_alike) {
  std::set<std::string> keys, serials;
  for (int i = 0; i < 5; ++i) {
    const Credentials one = made(make_node_certificate(authority, "n0", {}, 90, noon));
    keys.insert(one.key);
    const X509Ref certificate = parse(one.certificate);
    const NumberRef serial(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.get()), nullptr));
    EXPECT_EQ(BN_num_bits(serial.get()), 127);
    const std::unique_ptr<char, void (*)(char*)> text(BN_bn2hex(serial.get()), [](char* c) { OPENSSL_free(c); });
    serials.insert(text.get());
  }
  EXPECT_EQ(keys.size(), 5U);
  EXPECT_EQ(serials.size(), 5U);
}

TEST_F(Certificates, dates_that_are_not_met_are_named) {
  EXPECT_EQ(flaw(noon + days(91)),
            "the certificate of 'n0' expired on 2026-07-30 12:00 UTC, and it is 2026-07-31 12:00 UTC: make a new one");
  EXPECT_EQ(flaw(noon - 2h),
            "the authority 'quickstart' is valid from 2026-05-01 11:00 UTC on, and it is 2026-05-01 10:00 UTC: look at "
            "this machine's clock");
  EXPECT_THAT(flaw(noon + days(400)), HasSubstr("the authority 'quickstart' expired on 2027-05-01 12:00 UTC"));
}

TEST_F(Certificates, a_node_does_not_outlive_its_authority) {
  const Credentials late = made(make_node_certificate(authority, "n1", {}, 365, noon + days(300)));
  EXPECT_EQ(end_of_certificate(late.certificate), noon + days(365));
  EXPECT_THAT(refused(make_node_certificate(authority, "n1", {}, 365, noon + days(366))),
              HasSubstr("the authority expired on 2027-05-01 12:00 UTC"));
}

TEST_F(Certificates, another_authority_or_key_is_noticed) {
  const Credentials stranger = made(make_authority("quickstart", 365, noon));
  EXPECT_THAT(check_certificates(stranger.certificate, node.certificate, node.key, noon).value_or(""),
              HasSubstr("the certificate of 'n0' was not signed by the authority 'quickstart': "));
  const Credentials other = made(make_node_certificate(authority, "n1", {}, 90, noon));
  EXPECT_EQ(check_certificates(authority.certificate, node.certificate, other.key, noon),
            "the key does not belong to the certificate of 'n0'");
  EXPECT_EQ(refused(make_node_certificate({authority.certificate, stranger.key}, "n1", {}, 90, noon)),
            "the authority's key does not belong to its certificate");
  EXPECT_EQ(check_certificates(node.certificate, other.certificate, other.key, noon),
            "the authority 'n0' is none: its certificate may not sign others");
}

TEST_F(Certificates, texts_that_are_something_else_are_named) {
  EXPECT_EQ(check_certificates("", node.certificate, node.key, noon),
            "what should be the authority's certificate is no PEM certificate");
  EXPECT_EQ(check_certificates(authority.certificate, node.key, node.key, noon),
            "what should be the node's certificate is no PEM certificate");
  EXPECT_EQ(check_certificates(authority.certificate, node.certificate, node.certificate, noon),
            "what should be the node's key is no PEM private key without a passphrase");
  std::string damaged = node.certificate;
  damaged[damaged.size() / 2] = damaged[damaged.size() / 2] == 'A' ? 'B' : 'A';
  EXPECT_TRUE(check_certificates(authority.certificate, damaged, node.key, noon));
}

TEST(CertificateNames, those_that_no_certificate_takes_are_refused) {
  EXPECT_EQ(refused(make_authority("", 365, noon)), "the name '' has 0 bytes, where a certificate takes 1 to 64");
  EXPECT_THAT(refused(make_authority(std::string(65, 'x'), 365, noon)), HasSubstr("has 65 bytes"));
  // Nothing in a name is syntax.
  const Credentials authority = made(make_authority("a,b=c", 365, noon));
  const Credentials node = made(make_node_certificate(authority, "n", {"x,IP:1.2.3.4"}, 90, noon));
  const X509Ref certificate = parse(node.certificate);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "1.2.3.4", 0), 0);
}

}  // namespace
}  // namespace stagecraft
