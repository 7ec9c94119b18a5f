// Times the operations of one stream, for an operation_profile.
//
// On a device a mark is put into the queue before and after each operation, and read when the
// device has passed it: nobody waits; an operation costs the device about a microsecond more.

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

/// One call, not timed yet: "linear_forward<bf16>". Where the host cannot read the operation's
/// arrays, and its count needs them (attention over sequences of several lengths), flops stay 0.
operation_time call_of(const kernels::operation& op, bool on_host);

/// Used by the stream's thread alone.
class operation_timer {
 public:
  /// In the first steps products are measured and pools grow: they are not counted.
  static constexpr int warm_up = 2;

  explicit operation_timer(std::shared_ptr<operation_profile> to) : to_(std::move(to)) {}

  /// A step begins. One that is no training is not counted.
  void begin_step(bool training, stream& stream);
  bool counts() const { return counting_; }
  void add(const operation_time& call, moment begin, moment end, const stream& stream);
  /// Waits for the stream, and tells the profile. The last step ends with its last operation.
  void close(stream& stream);

 private:
  struct mark {
    enum class of : std::uint8_t { step_begin, operation, step_end } what;
    operation_time* operation;
    moment begin, end;  ///< the same of a step's
  };
  /// Reads what the stream has passed.
  void read(const stream& stream);
  void end_step(moment at);

  std::shared_ptr<operation_profile> to_;
  std::map<operation_kind, operation_time> times_;
  std::deque<mark> marks_;  ///< in the order of the stream
  moment last_;             ///< end of the newest operation
  int begun_ = 0;
  bool counting_ = false;
  std::uint64_t steps_ = 0;
  std::int64_t began_ns_ = 0;  ///< the step whose marks are being read
  double seconds_ = 0;         ///< of the steps that were read
};

}  // namespace troupe::runtime
