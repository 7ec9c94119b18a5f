// Times the operations of one stream, for an operation_profile.
//
// On a device it records an event before and after each operation and reads it once it has passed.
// The host never blocks for it. Cost: about 1 us of device time per operation.

#pragma once

#include "kernels/op/registry.hpp"
#include "runtime/device/moment.hpp"
#include "runtime/telemetry/operation_profile.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

namespace troupe::runtime {

class stream;

/// A record of one call without its time: "linear_forward<bf16>". `flops` stays 0 if the count
/// needs array contents that the host cannot read (attention over sequences of different lengths).
operation_time call_of(const kernels::operation& op, bool on_host);

/// Used only by the stream's thread.
class operation_timer {
 public:
  /// Steps that are not counted: products are autotuned and pools grow in them.
  static constexpr int warm_up = 2;

  explicit operation_timer(std::shared_ptr<operation_profile> to) : to_(std::move(to)) {}

  /// Starts a step. Only training steps are counted.
  void begin_step(bool training, stream& stream);
  bool counts() const { return counting_; }
  void add(const operation_time& call, moment begin, moment end, const stream& stream);
  /// Waits for the stream and adds the times to the profile. The last step ends with its last
  /// operation.
  void close(stream& stream);

 private:
  struct mark {
    enum class of : std::uint8_t { step_begin, operation, step_end } what;
    operation_time* operation;
    moment begin, end;  ///< those of the step for the other kinds
  };
  /// Consumes the marks that the stream has passed.
  void read(const stream& stream);
  void end_step(moment at);

  std::shared_ptr<operation_profile> to_;
  std::map<operation_kind, operation_time> times_;
  std::deque<mark> marks_;  ///< in stream order
  moment last_;             ///< end of the latest operation
  int begun_ = 0;
  bool counting_ = false;
  std::uint64_t steps_ = 0;
  std::int64_t began_ns_ = 0;  ///< start time of the step that is being read
  double seconds_ = 0;         ///< total of the steps read so far
};

}  // namespace troupe::runtime
