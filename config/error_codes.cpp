#include "config/error_codes.hpp"

#include <fmt/format.h>

#include "config/error_tables.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

std::vector<ErrorPage> error_pages() {
  std::vector<ErrorPage> pages(syntax_pages().begin(), syntax_pages().end());
  pages.insert(pages.end(), topology_pages().begin(), topology_pages().end());
  pages.insert(pages.end(), scenario_pages().begin(), scenario_pages().end());
  return pages;
}

ErrorPage page_of(ErrorCode code) {
  for (const auto pages : {syntax_pages(), topology_pages(), scenario_pages()}) {
    for (const ErrorPage& page : pages) {
      if (page.code == code) return page;
    }
  }
  raise_bug(__FILE__, __LINE__, "every code has a page", to_text(code) + " has no page");
}

std::string to_text(ErrorCode code) { return fmt::format("SC{:04}", static_cast<unsigned>(code)); }

std::optional<ErrorCode> parse_error_code(std::string_view text) {
  for (const ErrorPage& page : error_pages()) {
    if (to_text(page.code) == text) return page.code;
  }
  return std::nullopt;
}

std::string_view to_text(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "error";
    case Severity::warning:
      return "warning";
    case Severity::note:
      return "note";
  }
  raise_bug(__FILE__, __LINE__, "severity is known", "a severity outside its enumeration");
}

std::string to_markdown(const ErrorPage& page) {
  return fmt::format("### {} ({})\n\n**{}**\n\n{}\n\n```yaml\n{}\n```\n", to_text(page.code), to_text(page.severity),
                     page.sentence, page.explanation, page.example);
}

}  // namespace stagecraft
