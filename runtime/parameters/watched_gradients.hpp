// Stores that look at what one pass adds to the gradients: of a pass that is computed here, and of
// one that is computed again for another worker (trainer/verification.hpp).
//
// A sum in floating point depends on what it is added to, and products add inside. So a pass that
// is computed again adds to what the gradients were before it, and what they are after it is
// compared. Nothing of the training is added in another way than without that.

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::runtime {

/// What the gradient of a parameter was when a pass came to add to it.
enum class gradient_before : std::uint8_t {
  zero,   ///< nobody had added to it in this step
  known,  ///< as the pass of the micro-batch before it had left it, which is computed again, too
  given,  ///< anything else: it is copied
};

/// What a pass added to.
struct added_gradients {
  /// Of each parameter, in the order in which the pass comes to them; once for each piece of work
  /// (block of the backward pass) that adds to it.
  std::vector<gradient_before> before = {};
  /// Those that are `given`, one after the other, a tensor for each piece of work and unit.
  std::vector<tensor> given = {};
  /// Of all of them afterwards.
  digest after = {};
};

/// A store as layers see it, with gradients that something is done with. It outlives
/// the passes that add to it, and the store outlives it.
class gradient_view : public parameter_store {
 public:
  explicit gradient_view(parameter_store& of) : of_(of) {}

  dtype type() const override { return of_.type(); }
  const std::vector<parameter_entry>& entries() const override { return of_.entries(); }
  const axis_ranks& axes() const override { return of_.axes(); }
  const memory_pool& pool() const override { return of_.pool(); }
  int replicas() const override { return of_.replicas(); }
  void acquire(int unit) override { of_.acquire(unit); }
  void release(int unit) override { of_.release(unit); }
  const void* value(int unit, int index) const override { return of_.value(unit, index); }
  std::byte* values(int entry) override { return of_.values(entry); }
  float* gradients(int replica, int entry) override { return of_.gradients(replica, entry); }
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
  int entry_of(int unit, int index) const;

  parameter_store& of_;
};

/// Who lets each pass of a worker add to the gradients themselves, and of some of them takes down
/// what came of it.
class witnessed_gradients final : public gradient_view {
 public:
  witnessed_gradients(parameter_store& of, stream& by);

  /// The gradients are zero. What a pass that threw has left open is dropped: nobody takes it.
  void begin_step();
  /// From now on a piece of work of this pass adds. `to`: what is taken down; null: nothing.
  void begin(int replica, std::uint32_t microbatch, added_gradients* to);
  void end();
  /// Somebody has written to a gradient behind it, in this step: what passes of that replica add to
  /// is not zero.
  void note_written(int replica, int entry);
  /// Flips a bit of the next gradient that is taken down, before that: to show what follows.
  void flip_next() { flips_ = true; }

  float* gradient(int unit, int index) override;
  bool take_first_gradient(int unit, int index) override;
  void emit(int unit) override;

 private:
  /// The last pass that has added to a gradient.
  struct last_pass {
    std::int64_t microbatch = -1;  ///< negative: none
    bool witnessed = false;
  };

  void come_to(int entry);
  void take_down(int unit);  ///< what the gradients of the unit are now; negative: of all

  stream& by_;
  std::vector<std::vector<last_pass>> last_;  ///< of each replica and entry
  std::vector<char> come_;                    ///< of each entry: this piece of work has come to it
  std::vector<int> open_;                     ///< of those, which were not taken down
  std::vector<std::int64_t> room_;            ///< of each unit: elements of its gradients
  int replica_ = 0;
  std::int64_t microbatch_ = 0;
  added_gradients* to_ = nullptr;
  int copied_unit_ = -1;  ///< whose gradients lie in the last tensor
  bool flips_ = false;
};

/// Gradients of their own for passes that are computed again, of one chunk of another worker: one
/// after the other, ascending.
class replayed_gradients final : public gradient_view {
 public:
  replayed_gradients(parameter_store& of, stream& by);

  /// A pass that added to this. Broken promise REPLAY-1 where the pass that is computed again adds
  /// to others.
  void begin(added_gradients from);
  /// A piece of work of it has ended.
  void end_work();
  /// All of it has: what the gradients are now.
  digest end();
  /// What it began with is what this store had.
  bool continues() const { return continues_; }

  float* gradient(int unit, int index) override;
  bool take_first_gradient(int unit, int index) override;
  void emit(int unit) override;

 private:
  float* at(int entry) { return all_.data<float>() + offsets_[std::size_t(entry)]; }
  void come_to(int entry);
  void clear_if_stale(int entry);
  void take_down(int unit);

  stream& by_;
  std::vector<std::int64_t> offsets_;
  tensor all_;
  added_gradients from_;
  std::size_t next_ = 0, next_given_ = 0;
  std::int64_t given_at_ = 0;  ///< elements of the tensor that were taken
  int given_unit_ = -1;
  bool continues_ = false;
  std::vector<char> come_, stale_;
  std::vector<int> open_;
  digest after_;
};

}  // namespace troupe::runtime
