#include "tools/reproduce_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace stagecraft::tools {

namespace {

using reproduce::Cell;
using reproduce::Injection;
using reproduce::Memory;
using reproduce::System;
using reproduce::Unit;

struct Named {
  std::string_view name, text;
};

constexpr Named systems[] = {
    {"1f1b", "1F1B in its order, over device-ordered routes: a send holds its place in the device's queue"},
    {"zero-bubble", "zero bubble in its order, over the same"},
    {"delegated", "the same order; delegates send over the slow links and hold up no device"},
    {"pipemorph", "the published planner, told the delays; its list runs in order; delegates"},
    {"readiness", "zero bubble's list as a fixed hint: what is ready and fits runs at once (as RRFP); delegates"},
    {"follow", "the same list under rule follow, told nothing of the delays; delegates"},
    {"ours", "our planner, told the delays; its list is followed; delegates"},
    {"", ""},
    {"occupancy", "a message holds the slow link for so long, as the published injector does"},
    {"latency", "a message arrives so much later and holds up no other"},
    {"equal", "no stage holds more between F and W than zero bubble does: 2p - 1 micro-batches"},
    {"free", "a stage holds what it likes"},
    {"peak", "the most micro-batches that a stage holds: from F to B / from F to W"},
    {"*", "a constant was fitted to this published value"},
};

constexpr Named notes[] = {
    {"Simulated:",
     "by the event simulator, with the machines of stages and links that also run in the actors, but without actors, "
     "devices or bytes. The published numbers are of up to 128 H800 GPUs. Who is told a delay knows it at once: the "
     "time to detect it is in no number here, nor in the published ones, whose planner reads it from the injector."},
    {"Fixed costs:",
     "what an iteration takes besides its pipeline is one constant per model and runtime (1f1b, zero bubble direct, "
     "zero bubble delegated): the published healthy iteration less the simulated one. While a link is slow, systems "
     "with delegates bear the constant of delegating every transfer, though they delegate few."},
    {"Links:",
     "a device-ordered route admits one send. Both directions take turns on a slow link under zero bubble, and not "
     "under 1f1b, whose runtime exchanges gradient and activation in one go: the choice that agrees with the published "
     "slopes. Delegates per direction: 3 up to 30 ms, 6 above, as in the artifact; under occupancy they multiply the "
     "link's rate too."},
    {"Memory:",
     "the published planner knows no limit, so its published values belong to free. Within equal its warm-ups are "
     "clipped and a full stage runs no forward. Where memory is free the zero-bubble list leaves W to the end."},
    {"Left out:", "Figure 9 (contention on a GPU) is not emulated, nor are figures that are not named here."},
};

struct FigureText {
  int figure;
  std::string_view title, note;
};

constexpr std::string_view remapped =
    "7B with two replicas. Between the replicas every message of the gradients is late by the delay; how many there "
    "are "
    "was not published: as many as fit the longest delay. 'Instead': the slow link carries the last boundary of the "
    "pipeline (the reference does not say which). zero-bubble there is the paper's Falcon.";

constexpr FigureText figures[] = {
    {1, "what a slow last link costs published schedules", ""},
    {3, "a slow link between replicas, and in the pipeline", remapped},
    {6, "head-of-line blocking",
     "The published run was slowed by its profiler: it has a fixed cost of its own, fitted to its healthy point. In "
     "the model the link itself is the bottleneck, as 24 messages of 30 ms take turns on it: blocking adds nothing."},
    {14, "the pipeline alone, and its idle share", "Without fixed costs: the paper shows a trace of the pipeline."},
    {15, "one slow link, by its delay", ""},
    {16, "one slow link, by model and place",
     "Of some operator times of 30B and 60B only ranges were published: their middles stand here, and the fixed costs, "
     "fitted to the healthy points, take up the difference."},
    {17, "several slow links", ""},
    {18, "delays that change within an iteration",
     "The reference names no links: all three change here, each by itself, under three delegates per direction, for "
     "one minute of virtual time. pipemorph plans anew before each iteration, told the delays of that moment. ours has "
     "plans for six delays beside the zero-bubble list, and keeps to the one that would have been best over a past "
     "minute of the same links. hindsight takes the best of these plans for each iteration: nobody can know it."},
    {19, "the slow link between replicas becomes one of the pipeline", remapped},
    {21, "no link slow",
     "1f1b, zero-bubble and delegated are fitted: the simulator knows no cost of copies, launches or the optimizer. "
     "The others send directly while no link is slow."},
    {22, "production delays",
     "Delays drawn so that median, mean and 99th percentile are the published 13.0, 22.3 and 79.3 ms; none is above 90 "
     "ms. Not published, so assumed: which link is slow, that one is all the time, and how long a delay holds (two "
     "lengths). Three minutes of virtual time instead of an hour. The operator times of 140B are those of 60B, scaled "
     "by layers x width^2 / tensor-parallel ranks; its fixed costs are those of 60B. Under these assumptions "
     "zero-bubble "
     "comes out a third faster than it was published."},
};

constexpr std::size_t columns_of_text = 116;

// A paragraph behind `lead`, its further lines indented to `indent`.
std::string paragraph(std::string lead, std::string_view text, std::size_t indent) {
  std::string out, line = std::move(lead);
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > columns_of_text) {
      out += line + "\n";
      line = std::string(indent - 1, ' ');
    }
    line += " " + word;
  }
  return out + line + "\n";
}

const FigureText& text_of(int figure) {
  return *std::find_if(std::begin(figures), std::end(figures), [&](const FigureText& f) { return f.figure == figure; });
}

std::string number(double value, Unit unit) {
  return fmt::format("{:.{}f}", value, unit == Unit::milliseconds ? 0 : 1);
}

struct Column {
  Injection injection;
  Memory memory;
};
constexpr Column columns[] = {{Injection::occupancy, Memory::equal},
                              {Injection::occupancy, Memory::free},
                              {Injection::latency, Memory::equal},
                              {Injection::latency, Memory::free}};

// Where no link is slow both injections are the same; the first columns have it.
bool stands_in(const Cell& cell, const Column& column) {
  const Injection injection = cell.injection == Injection::none ? Injection::occupancy : cell.injection;
  return injection == column.injection && cell.memory == column.memory;
}

// The cells of one case and one system.
std::string row(const std::vector<const Cell*>& cells) {
  std::string published = "-", rest;
  for (const Cell* cell : cells)
    if (cell->published) published = number(*cell->published, cell->unit) + (cell->fitted ? "*" : " ");
  for (const Column& column : columns) {
    const auto found =
        std::find_if(cells.begin(), cells.end(), [&](const Cell* cell) { return stands_in(*cell, column); });
    const bool there = found != cells.end();
    rest += fmt::format("  {:>7} {:>5}", there ? number((*found)->measured, (*found)->unit) : "-",
                        there ? fmt::format("{}/{}", (*found)->activations, (*found)->held) : "");
  }
  std::string line = fmt::format("    {:<12} {:>9}{}", name_of(cells.front()->system), published, rest);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string reproduce_heading() {
  std::string out =
      "PipeMorph (NSDI 2026), its figures beside ours: emulated, calibrated on the published operator times\n\n";
  for (const Named& line : systems)
    out += line.name.empty() ? "\n" : fmt::format("  {:<12} {}\n", line.name, line.text);
  return out;
}

std::string figure_text(int figure, const std::vector<Cell>& cells) {
  const FigureText& text = text_of(figure);
  const Unit unit = cells.front().unit;
  std::string out = fmt::format("\nFigure {}: {}\n", figure, text.title);
  out += fmt::format("    {:>30}{:>30}\n", "occupancy", "latency");
  out += fmt::format("    {:<12} {:>9}", name_of(unit), "published");
  for (const Column& column : columns) out += fmt::format("  {:>7} {:>5}", name_of(column.memory), "peak");
  out += "\n";
  for (std::size_t i = 0; i < cells.size();) {
    // A case's cells follow one another; its systems recur under each injection and memory.
    std::size_t end = i;
    while (end < cells.size() && cells[end].title == cells[i].title) ++end;
    out += fmt::format("  {}{}\n", cells[i].title,
                       cells[i].unit == unit ? "" : fmt::format(", {}", name_of(cells[i].unit)));
    for (std::size_t s = 0; s < reproduce::system_count; ++s) {
      std::vector<const Cell*> of_system;
      for (std::size_t k = i; k < end; ++k)
        if (cells[k].system == static_cast<System>(s)) of_system.push_back(&cells[k]);
      if (!of_system.empty()) out += row(of_system);
    }
    i = end;
  }
  return text.note.empty() ? out : out + paragraph(" ", text.note, 2);
}

std::string reproduce_notes() {
  std::string out = "\nHow these numbers come about\n";
  for (const Named& note : notes) out += paragraph(fmt::format("  {:<12}", note.name), note.text, 15);
  return out;
}

std::string cell_json(const Cell& cell) {
  nlohmann::ordered_json json;
  json["figure"] = cell.figure;
  json["case"] = cell.title;
  json["system"] = name_of(cell.system);
  json["injection"] = name_of(cell.injection);
  json["memory"] = name_of(cell.memory);
  json["unit"] = name_of(cell.unit);
  json["published"] = nullptr;
  if (cell.published) json["published"] = *cell.published;
  json["measured"] = cell.measured;
  json["peak_activations"] = cell.activations;
  json["peak_held"] = cell.held;
  json["fitted"] = cell.fitted;
  return json.dump();
}

}  // namespace stagecraft::tools
