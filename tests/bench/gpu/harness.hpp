// Times operations on a device beside what the device can do: measured first, in the same process.

#pragma once

#include "kernels/op/every_op.hpp"
#include "tests/bench/gpu/arena.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::bench {

struct options {
  bool smoke = false;     ///< tiny shapes, few runs: whether all of it works
  bool ceilings = false;  ///< nothing but them
  int device = 0;
  std::string only;            ///< operations whose name contains it; empty: all
  std::string model;           ///< "gpt2", "1.3b", "llama", "flat"; empty: all
  std::filesystem::path json;  ///< empty: none; written as lines come
};

/// What a time is compared with.
enum class bound : std::uint8_t {
  memory,   ///< bytes over the copy bandwidth
  matrix,   ///< operations over the matrix rate
  latency,  ///< too small for either
};

struct work {
  double bytes = 0, flops = 0;
};

struct timing {
  double us = 0;               ///< the median of the groups
  double least = 0, most = 0;  ///< of the groups
  int groups = 0, runs = 0;    ///< runs in a group
  std::size_t sets = 1;        ///< of inputs, taken in turn
};

struct line_of_table {
  std::string model, op, shape;
  bound by = bound::memory;
  work done;
  timing took;
  std::string failure;  ///< empty: none
};

/// Every operation of a device.
std::set<std::string> every_name();

class harness {
 public:
  explicit harness(const options& options);

  const options& chosen() const { return options_; }
  runtime::stream& stream() { return stream_; }

  /// Lines from now on belong to it. False: it is not asked for.
  bool begin(const std::string& model);

  /// `make` builds the operation in an arena, and may run others that its inputs come from. What it
  /// does is counted from the operation unless it is given.
  template <class Make>
  void line(bound by, const std::string& shape, Make make, std::optional<work> done = {}) {
    using op = decltype(make(std::declval<arena&>()));
    line_of_table out{.model = model_,
                      .op = std::string(text(kernels::operation(op{}).name)),
                      .shape = shape,
                      .by = by};
    if (!wanted(out.op))
      return;
    try {
      std::vector<arena> arenas;
      std::vector<op> ops;
      arenas.reserve(most_sets);
      do {
        arenas.emplace_back(stream_, numbers_, std::uint32_t(arenas.size() + 1));
        ops.push_back(make(arenas.back()));
      } while (arenas.size() < sets_for(arenas.front().bytes()));
      out.done = done ? *done
                      : work{.bytes = double(kernels::bytes_moved(ops[0])),
                             .flops = double(kernels::flops(ops[0]))};
      out.took = time([&](std::size_t i) { stream_.run(ops[i % ops.size()]); });
      out.took.sets = ops.size();
    } catch (const std::exception& e) {
      out.failure = e.what();
    }
    add(std::move(out));
  }

  /// Prints what the whole came to; writes JSON if it is wanted. The exit code.
  int finish();

 private:
  static constexpr std::size_t most_sets = 16;

  void measure_ceilings();
  bool wanted(const std::string& op);
  std::size_t sets_for(std::size_t bytes) const;
  timing time(const std::function<void(std::size_t)>& run);
  void add(line_of_table line);
  double share(const line_of_table& x) const;
  /// Of what there is so far, unless no JSON is wanted.
  void write_json(bool complete);

  options options_;
  runtime::stream stream_;
  numbers numbers_;
  double copy_ = 0;    ///< bytes a second, read and written
  double matrix_ = 0;  ///< operations a second
  std::string model_;
  std::vector<line_of_table> lines_;
  std::set<std::string> seen_;
  std::chrono::steady_clock::time_point written_ = {};
};

}  // namespace troupe::bench
