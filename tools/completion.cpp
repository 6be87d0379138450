#include "tools/completion.hpp"

#include <algorithm>
#include <set>

#include "tools/shell_input.hpp"
#include "tools/verbs.hpp"

namespace stagecraft::tools {

namespace {

bool begins_with_all(const Words& name, const Words& typed) {
  return typed.size() < name.size() && std::equal(typed.begin(), typed.end(), name.begin());
}

// Words that may follow the verb; those that end in a slash stand for all names that begin so.
void add_following(const Verb& verb, const std::vector<std::string>& names, std::set<std::string>& all) {
  for (const std::string& word : words_of(verb.follows)) {
    if (!word.ends_with('/')) all.insert(word);
    for (const std::string& name : names)
      if (word.ends_with('/') && name.starts_with(word)) all.insert(name);
  }
}

}  // namespace

std::vector<std::string> completions(std::string_view line, const std::vector<std::string>& names) {
  Words typed = words_of(line);
  std::string begun;
  if (!typed.empty() && !line.ends_with(' ') && !line.ends_with('\t')) {
    begun = typed.back();
    typed.pop_back();
  }
  std::set<std::string> all;
  for (const Verb& verb : verbs()) {
    const Words name = words_of(verb.name);
    if (begins_with_all(name, typed)) all.insert(name[typed.size()]);
    if (typed.size() >= name.size() && std::equal(name.begin(), name.end(), typed.begin()))
      add_following(verb, names, all);
  }
  std::vector<std::string> fitting;
  std::copy_if(all.begin(), all.end(), std::back_inserter(fitting),
               [&](const std::string& word) { return word.starts_with(begun); });
  return fitting;
}

}  // namespace stagecraft::tools
