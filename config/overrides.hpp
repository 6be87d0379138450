// `--set dotted.key=value`: changes a file's tree before it is read. Pure; any thread.
#pragma once

#include "config/diagnostics.hpp"
#include "config/yaml_tree.hpp"

namespace stagecraft {

/// Applies the report's overrides in order, the last of equal keys wins. A path is made of keys and list indices (from
/// 0); missing keys are created, missing list items are reported. The value is read as YAML, so `[3, 2]` is a list.
void apply_overrides(YamlNode& root, Report& report);

}  // namespace stagecraft
