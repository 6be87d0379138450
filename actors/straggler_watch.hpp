// What the monitor of a job hears, iteration by iteration, for the straggler detector; and what that finds, in the
// words of the job. A value; one owner: the monitor.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "actors/messages.hpp"
#include "planning/detector.hpp"

namespace stagecraft {

class StragglerWatch {
 public:
  StragglerWatch(const PipelineShape& shape, std::uint32_t replicas);

  const DetectorSettings& settings() const { return detector_.settings(); }
  /// From the next iteration on; `complaint` must have none.
  void set(const DetectorSettings& settings) { detector_.set(settings); }

  void add(const Timing& x);
  void add(const LinkTimings& x);

  struct Found {
    std::vector<std::string> texts;  ///< one for each finding
    bool links = false;              ///< something about a link is among them
  };
  /// What is found now that an iteration has opened: everybody has told of the one before last.
  Found opened(const IterationOpened& x);
  /// All links that are slow at present.
  std::vector<SlowLink> slow_links() const;
  /// That link is well again, whatever was found of it: its route has changed back.
  void well(std::uint32_t boundary, Direction direction);

 private:
  struct Gathered {
    Epoch epoch;  // the newest attempt counts
    IterationSamples samples;
  };
  IterationSamples* of(Key key);
  void note(const StageFinding& finding, Found& found) const;
  void note(const LinkFinding& finding, Found& found);

  PipelineShape shape_;
  std::uint32_t replicas_, boundaries_;
  StragglerDetector detector_;
  std::map<Iteration, Gathered> gathered_;
  Key opened_;
  Iteration looked_at_;  // the newest
  Layout layout_;
  struct Slow {
    Duration latency{}, occupancy{};
  };
  std::map<std::pair<std::uint32_t, Direction>, Slow> slow_;  // by number of the link, over all replicas
};

}  // namespace stagecraft
