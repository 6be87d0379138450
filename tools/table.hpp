// Columns of text, each as wide as its widest cell; numbers to the right. Values only; any thread.
#pragma once

#include <string>
#include <vector>

namespace stagecraft::tools {

class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// The first column to the left, the others to the right, under a rule.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stagecraft::tools
