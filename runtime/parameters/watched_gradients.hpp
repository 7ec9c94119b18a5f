// Records and replays the gradients that one pass adds, to verify a pass by computing it again on
// another worker (trainer/verification.hpp).
//
// Floating-point addition is not associative, and matrix products accumulate in place. So the
// repeated pass starts from the same gradients as the original pass, and the results are compared.
// The original training arithmetic is unchanged.

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::runtime {

/// The gradient of a parameter before a pass added to it.
enum class gradient_before : std::uint8_t {
  zero,   ///< no pass had added to it in this step
  known,  ///< the result of the previous micro-batch's pass, which is replayed too
  given,  ///< any other value, which is copied
};

/// The gradients that a pass added to.
struct added_gradients {
  /// One per parameter and source in the order of access, and per piece of work (block of the
  /// backward pass) that adds to it.
  std::vector<gradient_before> before = {};
  /// The gradients marked `given`, one after another: a tensor per piece of work and unit.
  std::vector<tensor> given = {};
  /// Digest of all these gradients after the pass.
  digest after = {};
};

/// A store wrapper that intercepts access to gradients. It must outlive the passes that use it, and
/// the wrapped store must outlive it.
class gradient_view : public parameter_store {
 public:
  explicit gradient_view(parameter_store& of) : of_(of) {}

  dtype type() const override { return of_.type(); }
  const std::vector<parameter_entry>& entries() const override { return of_.entries(); }
  const axis_ranks& axes() const override { return of_.axes(); }
  const memory_pool& pool() const override { return of_.pool(); }
  int replicas() const override { return of_.replicas(); }
  source_sums sums() const override { return of_.sums(); }
  void acquire(int unit) override { of_.acquire(unit); }
  void release(int unit) override { of_.release(unit); }
  const void* value(int unit, int index) const override { return of_.value(unit, index); }
  std::byte* values(int entry) override { return of_.values(entry); }
  float* gradients(int part, int entry) override { return of_.gradients(part, entry); }
  bool writes_first_gradient() const override { return of_.writes_first_gradient(); }
  tensor* value_array() override { return of_.value_array(); }
  void select_replica(int replica) override { of_.select_replica(replica); }
  std::int64_t emitted(int unit) const override { return of_.emitted(unit); }
  void zero_gradients() override { of_.zero_gradients(); }
  void drop_gradients() override { of_.drop_gradients(); }
  void drop_gradients_of(int unit) override { of_.drop_gradients_of(unit); }
  bool keeps_gradients() const override { return of_.keeps_gradients(); }
  void drop_values(int unit) override { of_.drop_values(unit); }
  bool keeps_values() const override { return of_.keeps_values(); }
  bool has_values(int entry) const override { return of_.has_values(entry); }
  void on_emit(std::function<void(int)> then) override { of_.on_emit(std::move(then)); }
  void close_gate(const cancel_token& token) override { of_.close_gate(token); }
  void open_gate(int unit, std::shared_ptr<device_event> point) override {
    of_.open_gate(unit, std::move(point));
  }
  void on_gate_passed(std::function<void(const std::shared_ptr<device_event>&)> wait) override {
    of_.on_gate_passed(std::move(wait));
  }

 protected:
  /// Number of a gradient among those of a replica: those of the first source come first. Breaks
  /// STORE-11.
  int number_of(int unit, int index, int source) const;
  const parameter_entry& entry_of(int number) const {
    return entries()[std::size_t(number) % entries().size()];
  }
  int source_of(int number) const { return number / int(entries().size()); }
  std::size_t numbers() const;  ///< gradients of a replica, with those that entries lack

  parameter_store& of_;
};

/// Forwards gradients to the store and records selected passes.
class witnessed_gradients final : public gradient_view {
 public:
  witnessed_gradients(parameter_store& of, stream& by);

  /// Call it when gradients are zero. Discards the record of a pass that threw.
  void begin_step();
  /// Starts a piece of work of this pass. `to` receives the record; null: record nothing.
  void begin(int replica, std::uint32_t microbatch, added_gradients* to);
  void end();
  /// Reports a write to a gradient that bypassed this object in this step. The next pass of that
  /// replica then does not start from zero.
  void note_written(int replica, int entry);
  /// Flips a bit of the next recorded gradient before its digest, for fault injection.
  void flip_next() { flips_ = true; }

  float* gradient(int unit, int index, int source = 0) override;
  bool take_first_gradient(int unit, int index, int source = 0) override;
  void emit(int unit) override;

 private:
  /// The last pass that added to a gradient.
  struct last_pass {
    std::int64_t microbatch = -1;  ///< -1: none
    bool witnessed = false;
  };

  float* at(int number) {
    return of_.gradients(source_of(number) * of_.replicas() + replica_, entry_of(number).index);
  }
  void come_to(int number);
  void take_down(int unit);  ///< adds the unit's gradients to the digest; -1: all units

  stream& by_;
  std::vector<std::vector<last_pass>> last_;  ///< per replica and gradient
  std::vector<char> come_;                    ///< per gradient: this piece of work has accessed it
  std::vector<int> open_;                     ///< accessed gradients that are not recorded yet
  std::vector<std::int64_t> room_;            ///< per unit: elements of its gradients
  int replica_ = 0;
  std::int64_t microbatch_ = 0;
  added_gradients* to_ = nullptr;
  int copied_unit_ = -1;  ///< unit of the last tensor in `given`
  bool flips_ = false;
};

/// Separate gradients for replayed passes of one chunk of another worker, one pass at a time, in
/// ascending order.
class replayed_gradients final : public gradient_view {
 public:
  replayed_gradients(parameter_store& of, stream& by);

  /// Starts the replay of a pass. Breaks REPLAY-1 if the replay accesses other gradients than the
  /// original.
  void begin(added_gradients from);
  /// Ends a piece of work of the pass.
  void end_work();
  /// Ends the pass. Returns the digest of its gradients.
  digest end();
  /// True if the pass continues from the result of the previously replayed pass.
  bool continues() const { return continues_; }

  float* gradient(int unit, int index, int source = 0) override;
  bool take_first_gradient(int unit, int index, int source = 0) override;
  void emit(int unit) override;

 private:
  float* at(int number) { return all_.data<float>() + offsets_[std::size_t(number)]; }
  void come_to(int number);
  void clear_if_stale(int number);
  void take_down(int unit);

  stream& by_;
  std::vector<std::int64_t> offsets_;  ///< per gradient
  tensor all_;
  added_gradients from_;
  std::size_t next_ = 0, next_given_ = 0;
  std::int64_t given_at_ = 0;  ///< elements of the current tensor that are used up
  int given_unit_ = -1;
  bool continues_ = false;
  std::vector<char> come_, stale_;
  std::vector<int> open_;
  digest after_;
};

}  // namespace troupe::runtime
