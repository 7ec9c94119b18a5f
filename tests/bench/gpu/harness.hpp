// Times operations on a device, relative to its rates, which are measured first.

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
  bool smoke = false;     ///< tiny shapes and few runs, to test the program
  bool ceilings = false;  ///< measures only the device's rates
  int device = 0;
  std::string only;            ///< operations with this text in their name; empty: all
  std::string model;           ///< "gpt2", "1.3b", "llama", "flat"; empty: all
  std::filesystem::path json;  ///< empty: none; updated after each line
};

/// The rate that a time is compared with.
enum class bound : std::uint8_t {
  memory,   ///< bytes over the copy bandwidth
  matrix,   ///< operations over the matrix rate
  latency,  ///< too small for either
};

struct work {
  double bytes = 0, flops = 0;
};

struct timing {
  double us = 0;               ///< median of the groups
  double least = 0, most = 0;  ///< shortest and longest group
  int groups = 0, runs = 0;    ///< runs: per group
  std::size_t sets = 1;        ///< sets of inputs, used in turn
};

struct line_of_table {
  std::string model, op, shape;
  bound by = bound::memory;
  work done;
  timing took;
  std::string failure;  ///< empty: success
};

/// Names of all operations of the device backend.
std::set<std::string> every_name();

class harness {
 public:
  explicit harness(const options& options);

  const options& chosen() const { return options_; }
  runtime::stream& stream() { return stream_; }

  /// Following lines belong to this model. Returns false if it is not selected.
  bool begin(const std::string& model);

  /// `make` builds the operation in an arena, and may run others to compute its inputs. `done` is
  /// its work; by default it is computed from the operation.
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

  /// Prints a summary and writes the JSON file. Returns the exit code.
  int finish();

 private:
  static constexpr std::size_t most_sets = 16;

  void measure_ceilings();
  bool wanted(const std::string& op);
  std::size_t sets_for(std::size_t bytes) const;
  timing time(const std::function<void(std::size_t)>& run);
  void add(line_of_table line);
  double share(const line_of_table& x) const;
  /// Writes the lines so far to the JSON file, if one is given.
  void write_json(bool complete);

  options options_;
  runtime::stream stream_;
  numbers numbers_;
  double copy_ = 0;    ///< bytes per second, read plus written
  double matrix_ = 0;  ///< operations per second
  std::string model_;
  std::vector<line_of_table> lines_;
  std::set<std::string> seen_;
  std::chrono::steady_clock::time_point written_ = {};
};

}  // namespace troupe::bench
