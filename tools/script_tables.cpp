#include "tools/script_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tools/output.hpp"
#include "tools/table.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

using Shape = std::vector<std::vector<std::string>>;

// Numbers as people write them: 410 for 410.0, and no more digits than a table needs.
std::string cell_text(const ScriptValue& value, bool exact) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  return exact ? fmt::format("{}", value.get<double>()) : fmt::format("{:.6g}", value.get<double>());
}

std::vector<std::string> cells_of(const ScriptValue& list, bool exact) {
  std::vector<std::string> cells;
  for (const ScriptValue& value : list) cells.push_back(cell_text(value, exact));
  return cells;
}

std::string csv_line(const ScriptValue& list) {
  std::vector<std::string> cells = cells_of(list, true);
  for (std::string& cell : cells) {
    if (cell.find_first_of(",\"\r\n") == std::string::npos) continue;
    std::string in_quotes = "\"";
    for (const char c : cell) in_quotes += c == '"' ? std::string("\"\"") : std::string(1, c);
    cell = in_quotes + "\"";
  }
  return fmt::format("{}\r\n", fmt::join(cells, ","));
}

ScriptValue row_object(const ScriptValue& columns, const ScriptValue& row) {
  ScriptValue object = ScriptValue::object();
  for (std::size_t i = 0; i < columns.size(); ++i) object[columns[i].get<std::string>()] = row[i];
  return object;
}

std::string json_text(const ScriptValue& value) {
  return value.dump(-1, ' ', false, ScriptValue::error_handler_t::replace);
}

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

// Links are followed: what counts is where the file would lie.
void check_place(const std::string& path) {
  std::error_code error;
  const auto here = std::filesystem::canonical(".", error);
  if (error) throw ScriptError(fmt::format("cannot tell where the current folder is: {}", error.message()));
  const auto there = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  if (error || !is_below(there, here))
    throw ScriptError(
        fmt::format("'{}' is not in the current folder '{}' or below it; name a file there, or start the "
                    "script with --trusted",
                    path, here.string()));
}

}  // namespace

ScriptValue script_show(bool json, const std::vector<ScriptValue>& arguments) {
  const ScriptValue &columns = arguments.at(0), &rows = arguments.at(1);
  if (json) {
    for (const ScriptValue& row : rows) say("{}\n", json_text(row_object(columns, row)));
  } else {
    Table table(cells_of(columns, false));
    for (const ScriptValue& row : rows) table.add(cells_of(row, false));
    say("{}", table.text());
  }
  std::fflush(stdout);
  return nullptr;
}

ScriptValue script_write(bool trusted, const std::vector<ScriptValue>& arguments) {
  if (arguments.size() != 4 || !arguments[1].is_string() || arguments[1].get<std::string>().empty())
    throw ScriptError("expected the path of a file, such as \"out.csv\"");
  const auto path = arguments[1].get<std::string>();
  const ScriptValue &columns = arguments[2], &rows = arguments[3];
  if (!trusted) check_place(path);
  std::string text;
  if (arguments[0] == "csv") {
    text = csv_line(columns);
    for (const ScriptValue& row : rows) text += csv_line(row);
  } else {
    ScriptValue list = ScriptValue::array();
    for (const ScriptValue& row : rows) list.push_back(row_object(columns, row));
    text = json_text(list) + "\n";
  }
  RealDisk disk;
  if (const DiskStatus error = disk.write_whole(path, text)) throw ScriptError(error->text());
  return nullptr;
}

}  // namespace stagecraft::tools
