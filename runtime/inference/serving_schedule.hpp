// Decides what an engine computes next: a pure function of its texts, free pages and limits.
//
//   1. Texts that run get their rows, oldest first: one row if only the newest token is missing,
//      then chunks of longer ones. A text without a free page takes those of the newest running
//      text, which is preempted: it waits again and is computed again.
//   2. Waiting texts are admitted in their order if the pages of all their tokens are free, unless
//      a text was preempted.
//
// The oldest running text always gets on, so each text ends. There must be pages for the longest
// text alone.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::runtime {

struct text_in_service {
  std::int64_t tokens = 1;     ///< prompt and generated ones
  std::int64_t computed = 0;   ///< of them in pages, fewer than tokens
  std::int64_t pages = 0;      ///< that it has
  std::int64_t own_pages = 0;  ///< of them without another reference
};

struct serving_limits {
  std::int64_t rows = 512;    ///< of a batch; more than `running`
  std::int64_t running = 64;  ///< texts
};

struct served_rows {
  std::size_t text;   ///< index
  std::int64_t rows;  ///< at least 1
  bool operator==(const served_rows&) const = default;
};

struct serving_batch {
  std::vector<std::size_t> preempted;  ///< running texts, newest first
  std::vector<served_rows> running;    ///< oldest first
  std::vector<served_rows> admitted;   ///< waiting texts, in their order
};

/// `running`: oldest first. `waiting`: next first.
serving_batch serving_schedule(std::span<const text_in_service> running,
                               std::span<const text_in_service> waiting,
                               std::int64_t free_pages,
                               const serving_limits& limits);

}  // namespace troupe::runtime
