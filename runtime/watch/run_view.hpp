// The state of a run as a viewer knows it: the sum of its records (docs/formats/telemetry.md).
//
// `take` adds one record after the other. The content of a record never causes an exception;
// missing and unknown fields of other versions are ignored. Each list and each text has a limit
// (run_view::most_...); the view omits entries beyond it.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// A point of a curve: (iteration, value).
struct view_point {
  std::uint64_t iteration = 0;
  double value = 0;
};

struct view_action {
  std::string name;  ///< "0F3"
  double begin_ms = 0, end_ms = 0;
};

struct view_row {
  int rank = 0;  ///< pipeline rank
  std::vector<view_action> executed, planned;
};

struct view_timeline {
  double at = 0;  ///< time of the record, Unix seconds
  std::uint64_t iteration = 0;
  double planned_ms = 0, executed_ms = 0;
  double bubble = 0, planned_bubble = 0;
  std::uint64_t left_out = 0;  ///< executed actions that the record lacks
  std::vector<view_row> rows;
};

struct view_lane {
  std::string who, state, work;
  std::vector<std::string> on;  ///< names of the lanes or actors that it waits for
  double for_s = 0;
};

struct view_traffic {
  std::uint64_t messages = 0, bytes = 0;
};

/// A GPU of a process. Empty values were not measured.
struct view_device {
  int device = 0;  ///< CUDA device number in the process
  std::string name;
  std::optional<double> power_w, clock_mhz, temperature_c, memory_bytes;
  std::optional<double> utilisation;  ///< 0 to 1
};

struct view_process {
  std::string name, role, host;
  std::int64_t pid = 0;
  double at = 0;          ///< time of the newest sample, Unix seconds
  double cpu_share = -1;  ///< CPU cores used between the two newest samples; negative: unknown
  std::uint64_t resident_bytes = 0;
  std::map<std::string, std::uint64_t> memory_bytes;  ///< by kind
  std::uint64_t leases = 0;
  std::vector<view_lane> lanes;

  double cpu_s = 0;  ///< of the newest sample
  double up_s = 0;
  std::uint64_t peak_resident_bytes = 0;
  std::map<std::string, view_traffic> sent, received;  ///< by peer, since the process started
  std::vector<view_device> devices;
  std::map<std::string, std::uint64_t> queues;  ///< waiting tensor messages, by member
  std::optional<double> energy_j;  ///< of the host's CPU packages, since the process began
};

struct view_member {
  std::string who, state, process, why;
  double since = 0;  ///< Unix seconds
};

/// Times of the newest timed step in the pipeline.
struct view_pipeline {
  double seconds = 0, planned_seconds = 0;
  double bubble = 0, planned_bubble = 0;
};

/// Experts of the newest counted step: the extremes over all layers.
struct view_experts {
  std::uint64_t most = 0, least = 0, dropped = 0;  ///< rows
  double entropy = 0;
};

struct view_save {
  std::uint64_t iteration = 0;
  std::optional<double> seconds;  ///< from the start of the save until it was written
};

/// Workers that one record found slow.
struct view_straggler {
  std::vector<std::string> who;  ///< those that are still slow: "stage:0.1"
  std::string verdict, why;      ///< verdict: "compute", "link" or "input"
  std::uint64_t iteration = 0;
  double at = 0;  ///< Unix seconds; 0: unknown
};

/// Counts of records since the view began. Each map has at most run_view::most_names names; further
/// names count as "other".
struct view_counts {
  using by_name = std::map<std::string, std::uint64_t>;
  by_name events;      ///< by event: "restart", "wrong bits", ...
  by_name restarts;    ///< restarts, moves and reruns by source of the state: "keeper", ...
  by_name wrong_bits;  ///< by verdict
  by_name stragglers;  ///< by cause; without the end of a slow phase ("over")
  by_name deaths;      ///< by kind of member: "stage" for "stage:0.1"
  by_name saves;       ///< by state: "begun", "written", "failed"
  std::uint64_t warnings = 0;
  double recovery_seconds = 0;  ///< of all restarts, moves and reruns
};

/// A line of text for the user: an event, a save, a warning or a command.
struct view_event {
  double at = 0;
  std::string kind, text;
};

struct run_view {
  // From /api/run.
  std::string id, name, program, host;
  std::uint64_t steps = 0;
  std::map<std::string, int> layout;  ///< "tensor", "pipeline", "data", ...
  double started_at = 0;

  // From the records.
  double at = 0;  ///< time of the newest record, Unix seconds
  std::uint64_t iteration = 0;
  double loss = 0, grad_norm = 0, learning_rate = 0, step_ms = 0, tokens_per_second = 0;
  std::optional<double> teraflops_per_second, share_of_matrix_rate;
  std::string state;  ///< "training", "recovering", ...; empty: unknown
  /// Newest: "lm", "validation", "test"; with several losses also "sum", "validation_lm". May be
  /// NaN.
  std::map<std::string, double> loss_by_name;
  std::uint64_t consumed_samples = 0, consumed_tokens = 0, skipped_iterations = 0;
  std::optional<view_pipeline> pipeline;  ///< only for runs with several stages
  std::optional<view_experts> experts;    ///< only for models with experts
  std::optional<view_save> saved;         ///< newest complete checkpoint
  view_counts counts;
  std::deque<view_point> losses, speeds;
  std::optional<view_timeline> timeline;  ///< of the slowest replica
  std::map<std::string, view_process> processes;
  std::map<std::string, view_member> members;
  std::deque<view_straggler> stragglers;  ///< oldest first; at most most_names workers
  std::deque<view_event> events;          ///< oldest first
  std::uint64_t dropped = 0;
  std::optional<int> exit_code;
  bool died = false;  ///< the end record has no exit code
  std::string end_reason;

  static constexpr std::size_t most_points = 4096, most_events = 200, most_names = 1024;
  static constexpr std::size_t most_members = 16384;  ///< limit of members, and of processes
  static constexpr std::size_t most_actions = 16384;  ///< in one row of the timeline
  static constexpr std::size_t most_waits = 64;       ///< names that one lane waits for
  static constexpr std::size_t most_text = 4096;      ///< bytes of a name or a text

  /// Takes the answer of /api/run. A run with another id resets the view.
  void take_run(std::string_view text);
  /// Takes one record. Text that is not a record is ignored and counted in `unread`.
  void take(std::string_view text);
  std::uint64_t unread = 0;

  std::optional<double> seconds_left() const;  ///< estimate from the duration of the newest step
};

}  // namespace troupe::runtime
