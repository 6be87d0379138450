#include <array>

#include "config/error_tables.hpp"

namespace stagecraft {
namespace {

using enum ErrorCode;
constexpr Severity error = Severity::error;

// Each page: code, severity, sentence, explanation, example.
constexpr ErrorPage pages[] = {
    {file_too_large, error, "The file is larger than 1 MiB.",
     "A topology of a thousand stages takes some 100 KiB. A larger file is nearly always the wrong file, so it is "
     "refused before it is parsed. Use `count` for equal devices and `links.defaults` for equal links.",
     "devices: [{ kind: cpu, count: 64, memory: 2GiB }]   # one entry instead of 64"},
    {not_text, error, "The file is not plain UTF-8 text.",
     "The position is that of the first byte that is not valid UTF-8, or of a control character (only line feed, "
     "carriage return before line feed, and tab are allowed). Save the file as UTF-8; write special characters as "
     "escapes in double quotes.",
     "split: \"\\u001e\"   # instead of the raw character"},
    {not_yaml, error, "The text cannot be read as YAML.",
     "The position is where reading stopped; the cause is often on the line above: a bracket that is not closed, a "
     "missing blank after a colon, or lines of one map that are indented differently.",
     "pipeline: { stages: 4, chunks: 1   # the closing } is missing"},
    {too_deep, error, "Lists and maps are nested deeper than 32 levels.",
     "No file of this program needs more than 8 levels. The limit keeps a damaged or hostile file from exhausting the "
     "stack.",
     "layout: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[8]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"},
    {too_many_values, error, "The file holds more than 100,000 keys and values.",
     "The limit keeps a damaged or hostile file from exhausting memory. Use `count` for equal devices.",
     "devices: [{ kind: emulated, count: 1024, memory: 80GiB, costs: { forward: 10ms } }]"},
    {alias, error, "Anchors and aliases (`&name`, `*name`) are not allowed.",
     "A few lines of aliases can stand for billions of values, and an error in one would have many positions. Write "
     "the value where it is used; use `--set` or `count` to avoid repetition.",
     "forward: &t 10ms\nbackward_input: *t   # write 10ms instead"},
    {second_document, error, "The file holds more than one document, or text after the end of the first.",
     "Everything behind the first document would be ignored by most YAML readers. Remove the `---` or `...` line, or "
     "the lines that are indented less than the first one.",
     "version: 1\n---\njob: { name: second }   # never read by others, refused here"},
    {unterminated_quote, error, "A quote is opened and never closed.",
     "The position is that of the opening quote. Everything up to the end of the file would belong to the text.",
     "job: { name: \"quickstart, seed: 7 }   # the closing \" is missing"},
    {tab_in_indentation, error, "A line is indented with a tab.",
     "YAML counts blanks for indentation and readers disagree about tabs. Use blanks; in text write `\\t` within "
     "double quotes.",
     "model:\n  layers: 8   # two blanks, not a tab"},
    {empty_file, error, "The file holds no values.",
     "It is empty or has only comments. Start from one of the files in `examples/`.", "version: 1"},
    {tag_or_directive, error, "Tags (`!!int`) and directives (`%YAML`) are not allowed.",
     "The type of each value follows from its key. Remove the tag or the directive.",
     "layers: !!int \"8\"   # write layers: 8"},
    {bad_key, error, "A key is not a plain word.",
     "Keys are words; a list, a map or nothing as a key, and the merge key `<<`, are refused.",
     "? [0, 1]\n: { latency: 20ms }   # write { between: [0, 1], latency: 20ms }"},
    {duplicate_key, error, "A key stands twice in the same map.",
     "Readers disagree about which one counts, so neither does. Remove one of them; the message names the line of the "
     "first.",
     "pipeline:\n  stages: 4\n  stages: 8"},
    {unknown_key, error, "A key is not known here.",
     "A misspelt key would silently leave the default in force. The message lists the keys of this map and guesses "
     "which one was meant.",
     "model: { layrs: 8 }   # did you mean 'layers'?"},
    {missing_key, error, "A key that has no default is missing.",
     "The position is that of the map which should hold it. The message says what the key takes.",
     "pipeline: { chunks: 1 }   # stages is missing"},
    {wrong_type, error, "A value is of the wrong type.",
     "For example text where an integer is expected. Integers are written without quotes, point or exponent; yes and "
     "no are written true and false.",
     "layers: \"8\"   # write layers: 8\ntied_embeddings: yes   # write true"},
    {ambiguous_number, error, "A number that YAML readers understand differently.",
     "`017` is 15 for some readers and 17 for others; `0x1f`, `0o17` and `1_000` are numbers for some and text for "
     "others. Write plain decimal digits.",
     "layers: 017   # write 17 (or 15)"},
    {out_of_range, error, "A number is outside its range.",
     "The message gives the range. Bounds are far above what makes sense and keep a slip of the finger from asking "
     "for all memory.",
     "stages: 0   # at least 1"},
    {not_finite, error, "A number is infinite or not a number.",
     "Such a value would spread through every result. Write a finite number; to switch something off use the value "
     "that the reference names (for example `clip: 0`).",
     "optimizer: { clip: .inf }   # write clip: 0"},
    {bad_unit, error, "A duration, size or bandwidth without its unit, or with an unknown one.",
     "Durations take ns, us, ms, s, m or h; sizes take B, KiB, MiB, GiB, TiB or KB, MB, GB, TB; bandwidths the same "
     "with /s. Only 0 may stand alone. No blank between number and unit.",
     "latency: 20   # write 20ms\nmemory: 2 GB   # write 2GB"},
    {unknown_choice, error, "A word is none of those that the key takes.",
     "The message lists the words and guesses which one was meant.", "schedule: 1f1 # did you mean '1f1b'?"},
    {bad_override, error, "An override is not of the form dotted.key=value.",
     "The part before the first `=` is a path of keys and list indices joined by points, the part behind it a value "
     "in YAML.",
     "# --set pipeline.stages=8 --set nodes.0.devices.0.count=8 --set 'pipeline.layout=[3, 2, 2, 1]'"},
    {override_without_place, error, "An override points to a place that is not there.",
     "A list index counts from 0 and must exist, and only maps and lists have something inside. New keys of a map are "
     "created; a word that is no key of the format is reported as unknown (SC0114).",
     "# --set nodes.3.name=n3 when the file has two nodes"},
    {bad_text, error, "A text is empty, too long, or holds characters that are not allowed here.",
     "Names become parts of file names and of command lines: letters, digits, `-`, `_` and `.`, beginning with a "
     "letter or digit, at most 64.",
     "job: { name: \"my run / 7\" }   # write my-run-7"},
    {list_length, error, "A list has too few or too many items.", "The message gives both numbers.",
     "nodes: []   # at least one node"},
};

}  // namespace

std::span<const ErrorPage> syntax_pages() { return pages; }

}  // namespace stagecraft
