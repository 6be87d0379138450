// The codes, their pages and the documentation that holds them.
#include "config/error_codes.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace stagecraft {
namespace {

TEST(ErrorCodes, every_code_is_unique_and_in_order) {
  const auto pages = error_pages();
  ASSERT_GT(pages.size(), 50U);
  for (std::size_t i = 1; i < pages.size(); ++i) EXPECT_LT(pages[i - 1].code, pages[i].code) << to_text(pages[i].code);
}
TEST(ErrorCodes, every_page_has_a_sentence_of_its_own_an_explanation_and_an_example) {
  std::set<std::string_view> sentences;
  for (const ErrorPage& page : error_pages()) {
    EXPECT_TRUE(page.sentence.ends_with('.')) << to_text(page.code);
    EXPECT_TRUE(sentences.insert(page.sentence).second) << to_text(page.code);
    EXPECT_GT(page.explanation.size(), 20U) << to_text(page.code);
    EXPECT_FALSE(page.example.empty()) << to_text(page.code);
  }
}
TEST(ErrorCodes, codes_print_and_parse_back) {
  EXPECT_EQ(to_text(ErrorCode::layout_sum), "SC0203");
  for (const ErrorPage& page : error_pages()) EXPECT_EQ(parse_error_code(to_text(page.code)), page.code);
  for (const char* text : {"", "SC", "SC0000", "SC9999", "0203", "sc0203", "SC0203 "}) {
    EXPECT_FALSE(parse_error_code(text)) << text;
  }
}
TEST(ErrorCodes, the_documentation_holds_every_page_word_for_word) {
  std::ifstream file(STAGECRAFT_SOURCE_DIR "/docs/errors.md");
  ASSERT_TRUE(file);
  std::stringstream text;
  text << file.rdbuf();
  for (const ErrorPage& page : error_pages()) {
    EXPECT_NE(text.str().find(to_markdown(page)), std::string::npos) << "docs/errors.md lacks or differs:\n"
                                                                     << to_markdown(page);
  }
}
TEST(ErrorCodes, the_documentation_names_no_code_that_does_not_exist) {
  std::ifstream file(STAGECRAFT_SOURCE_DIR "/docs/errors.md");
  std::size_t headings = 0;
  for (std::string line; std::getline(file, line);) headings += line.starts_with("### SC") ? 1 : 0;
  EXPECT_EQ(headings, error_pages().size());
}

}  // namespace
}  // namespace stagecraft
