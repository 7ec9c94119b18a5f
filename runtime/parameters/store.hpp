// The parameter store: gives layers, optimizer and worker access to parameters and gradients.
//
// A layer never keeps a pointer. It acquires a unit for a pass, reads it, and releases it; it emits
// the unit once the weight gradients of a micro-batch are complete. Storage (memory, shards, a
// file) is hidden behind this interface, which makes sharding and offloading possible.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/parameters/spec.hpp"
#include "runtime/tensor/tensor.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

/// One parameter of a store.
struct parameter_entry {
  parameter_spec spec;
  int unit = 0;
  int index = 0;           ///< index in the store
  shape extents;           ///< local extents, including padding rows
  std::vector<box> boxes;  ///< the local part of the whole parameter, without padding
  std::int64_t valid = 0;  ///< elements before the padding
  std::int64_t room = 0;   ///< elements from its beginning to the next possible entry
  /// Its arrays directly follow those of the previous entry, so a bucket may span both.
  bool follows = false;
  int owner = -1;  ///< the first entry of this store that has its values, or -1

  std::int64_t size() const { return extents.size(); }
  /// Elements of its gradient, including the padding.
  std::int64_t gradient_room() const { return spec.frozen ? 0 : room; }
  /// True for a tied copy with its owner on another stage.
  bool is_foreign_copy() const { return owner < 0 && !spec.tied_to.empty(); }
  /// The name of its values: that of the owner if it is tied.
  const std::string& known_as() const { return spec.tied_to.empty() ? spec.name : spec.tied_to; }
};

/// Gradients of experts that compute rows of several ranks.
enum class source_sums : std::uint8_t {
  /// One for each source: a rank along the expert axis. Buckets sum them in rank order. With one
  /// tensor rank the number of sources then changes no bit (SUMS-1).
  by_source,
  together,  ///< one, to which all sources add: needs less memory
};

/// The sources of a parameter's rows: the ranks along the expert axis if they share it out. 1 for
/// any other parameter, and for a frozen one.
int sources_of(const parameter_spec& x, const axis_ranks& ranks);

/// Entries of `units` for a rank. `room` is a multiple of 16 elements, and no entry follows
/// another. Breaks STORE-1 if tied parameters differ in shape or type, or only some of them are
/// frozen.
std::vector<parameter_entry> entries_of(const std::vector<unit_spec>& units,
                                        const axis_ranks& ranks);

/// One lane calls all functions except `open_gate`. `unit` and `index` count from 0 in the order of
/// the specifications, and so do entries. Arrays are in the memory of pool(): the host or a device.
class parameter_store {
 public:
  virtual ~parameter_store() = default;

  /// Type of the values: f32, bf16 or f16; of a parameter: type_of. Gradients are f32.
  virtual dtype type() const = 0;
  virtual const std::vector<parameter_entry>& entries() const = 0;
  virtual const axis_ranks& axes() const = 0;
  virtual const memory_pool& pool() const = 0;
  /// Number of logical replicas with separate gradients. With them, fewer workers than replicas
  /// give the same bits.
  virtual int replicas() const = 0;
  /// A logical replica has a gradient for each source of an entry if these are `by_source`.
  virtual source_sums sums() const { return source_sums::together; }
  int sources(const parameter_entry& e) const {
    return sums() == source_sums::together ? 1 : sources_of(e.spec, axes());
  }
  /// Gradients of an entry. A bucket sums them in their order, source * replicas() + replica.
  int parts(const parameter_entry& e) const { return sources(e) * replicas(); }
  /// Most gradients of an entry.
  int parts() const;

  // Called by layers.

  /// Makes the unit's values readable until `release`. Calls may nest. May wait for the values to
  /// arrive, and then throws `cancelled`.
  virtual void acquire(int unit) = 0;
  virtual void release(int unit) = 0;
  virtual const void* value(int unit, int index) const = 0;

  /// Array that this micro-batch's gradient is added to. Requires an acquired unit. Breaks STORE-9
  /// for a frozen parameter, and STORE-11 for a source that the parameter does not have.
  virtual float* gradient(int unit, int index, int source = 0) = 0;
  /// Call it before `gradient`. True if the caller must overwrite the whole gradient instead of
  /// adding to it, whatever it contains. It is true once per entry and source of the selected
  /// replica after zero_gradients, if no earlier call accessed the gradient. The first call of
  /// either function is when a step starts to need memory for the gradient. A store may instead
  /// clear its gradients and always return false.
  virtual bool take_first_gradient(int, int, int = 0) { return false; }
  /// True if take_first_gradient can return true.
  virtual bool writes_first_gradient() const { return false; }

  /// Declares the unit's weight gradients of this micro-batch complete.
  virtual void emit(int unit) = 0;

  // Called by buckets, optimizer and worker, which reduce, update and gather between passes.

  /// Beginning of an entry's values, of type_of(entry), or of one of its gradients. An entry that
  /// follows another with as many parts begins `room` elements after it.
  virtual std::byte* values(int entry) = 0;
  virtual float* gradients(int part, int entry) = 0;
  /// Breaks STORE-7 if the values were dropped.
  const std::byte* values(int entry) const;
  const float* gradients(int part, int entry) const {
    return const_cast<parameter_store*>(this)->gradients(part, entry);
  }

  /// Selects the logical replica of the following micro-batches.
  virtual void select_replica(int replica) = 0;
  /// Number of emits of the unit since zero_gradients, over all replicas.
  virtual std::int64_t emitted(int unit) const = 0;
  /// Sets all gradients to zero, possibly lazily: an entry is zero when it is accessed. After a
  /// unit's emit its gradients are valid in memory, also for access through a preceding entry.
  virtual void zero_gradients() = 0;
  /// `emit` calls `then` after it has updated `emitted`.
  virtual void on_emit(std::function<void(int unit)> then) = 0;

  /// Closes all gates: `acquire` waits for a unit until its gate opens or the token is cancelled.
  /// Call it while no unit is acquired.
  virtual void close_gate(const cancel_token& token) = 0;
  /// Opens a unit's gate: its values are valid, or will be once `point` is passed. Does nothing
  /// without an earlier `close_gate`. Any thread.
  virtual void open_gate(int unit, std::shared_ptr<device_event> point = nullptr) = 0;
  /// `acquire` calls `wait` with the point of the unit's gate.
  virtual void on_gate_passed(std::function<void(const std::shared_ptr<device_event>&)> wait) = 0;

  /// The array of all values, as elements of type(). A caller may replace it, between passes, by
  /// another of the same size, which then holds the values. Null if the store has no such array.
  virtual tensor* value_array() { return nullptr; }

  /// Declares that the gradients of this step are not read again. A store may free their memory
  /// until the next access, which then finds zeros.
  virtual void drop_gradients() {}
  /// Like drop_gradients, for one unit.
  virtual void drop_gradients_of(int) {}
  /// False if gradients have memory only from the first access until they are dropped.
  virtual bool keeps_gradients() const { return true; }

  /// Declares that the unit's values are not read again, after its release, until all valid
  /// elements are rewritten. A store may free their memory until the next write access. Padding is
  /// then zero, and the rest undefined.
  virtual void drop_values(int) {}
  /// True if drop_values has no effect.
  virtual bool keeps_values() const { return true; }
  /// True if the entry's values exist or are being written.
  virtual bool has_values(int) const { return true; }

  // Implemented in terms of the functions above.

  /// f32 for parameters with keep_f32, type() for the others.
  dtype type_of(const parameter_entry& e) const { return e.spec.keep_f32 ? dtype::f32 : type(); }
  /// Sets valid elements [begin, begin + from.size()) of an entry from host memory, rounded to
  /// type_of(e).
  void set(const parameter_entry& e, std::int64_t begin, std::span<const float> from);
  /// Like `set`, with `n` elements of type_of(e).
  void set_rounded(const parameter_entry& e, std::int64_t begin, std::int64_t n, const void* from);
  /// Rounds to type_of(e), on the host.
  void round(const parameter_entry& e, std::span<const float> from, void* to) const;

  /// Entries [first, end), each but the first of which follows the previous one.
  struct stretch {
    int first = 0, end = 0;
    std::int64_t size = 0;  ///< elements, including padding and alignment
  };
  /// All gradients of a part as ascending stretches, without the entries that lack the part.
  std::vector<stretch> stretches_of_gradients(int part = 0) const;
  /// All values as ascending stretches, without entries that are tied to another entry. Either all
  /// entries of a stretch are frozen or none is; all have one type and one view.
  std::vector<stretch> stretches_of_values() const;
  dtype type_of(const stretch& x) const { return type_of(entries()[std::size_t(x.first)]); }
  bool is_frozen(const stretch& x) const { return entries()[std::size_t(x.first)].spec.frozen; }
  /// The parameter with this index in its unit.
  const parameter_entry& entry_at(int unit, int index) const;
};

}  // namespace troupe::runtime
