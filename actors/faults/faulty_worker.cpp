#include "actors/faults/faulty_worker.hpp"

#include "runtime/core/random.hpp"

namespace troupe::actors {

using moment = runtime::moment_of_step;

void working_lanes::at(const runtime::stream& by, lane x) {
  const std::lock_guard lock(mutex_);
  lanes_.insert_or_assign(&by, std::move(x));
}

void working_lanes::leave(const runtime::stream& by) {
  const std::lock_guard lock(mutex_);
  lanes_.erase(&by);
}

std::optional<working_lanes::lane> working_lanes::find(const runtime::stream* by) const {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(by);
  return found == lanes_.end() ? std::nullopt : std::optional(found->second);
}

namespace {

runtime::state_array wrong_array(fault_injector::fate x) {
  using enum runtime::state_array;
  return x == fault_injector::fate::wrong_moment          ? first_moment
         : x == fault_injector::fate::wrong_second_moment ? second_moment
                                                          : weights;
}

}  // namespace

faulty_worker::faulty_worker(std::shared_ptr<const fault_injector> faults,
                             std::shared_ptr<working_lanes> lanes,
                             const worker_place& place,
                             runtime::worker_settings settings,
                             runtime::stream& by,
                             const runtime::worker_groups& groups)
    : worker(std::move(settings), by, groups),
      faults_(std::move(faults)),
      lanes_(std::move(lanes)),
      by_(by),
      rank_(place.rank),
      step_(place.step) {
  lanes_->at(by_, {"lane:" + rank_, step_});
}

faulty_worker::~faulty_worker() {
  lanes_->leave(by_);
}

faulty_worker::fate faulty_worker::come_to(moment at, bool has_result) const {
  return faults_->pass("lane:" + rank_, step_, at, has_result);
}

faulty_worker::fate faulty_worker::come_to_pass(moment at, bool has_result) const {
  return come_to(training_ ? at : moment::validate, has_result);
}

void faulty_worker::begin_step(const runtime::step_settings& step) {
  step_ = value(step.step);
  training_ = step.training;
  lanes_->at(by_, {"lane:" + rank_, step_});
  worker::begin_step(step);
  if (training_ && faults_->injects("nan:" + rank_, step_))
    inject_nan_gradient();
}

runtime::bundle faulty_worker::forward(const runtime::pass_key& key, const runtime::bundle& in) {
  const bool flips = come_to_pass(moment::forward) == fate::wrong_bits;
  auto out = worker::forward(key, in);
  if (flips)
    flip_output_bit(key, out);
  return out;
}

runtime::bundle faulty_worker::input_gradients(const runtime::pass_key& key,
                                               const runtime::bundle& in,
                                               int block) {
  const bool has_result = block == 0 && gives_gradient(key.chunk);
  const bool flips = come_to_pass(moment::input_gradient, has_result) == fate::wrong_bits;
  auto out = worker::input_gradients(key, in, block);
  if (flips)
    flip_output_bit(key, out);
  return out;
}

void faulty_worker::flip_before_adding(const runtime::pass_key& key) {
  if (come_to_pass(moment::weight_gradient) == fate::wrong_bits)
    flip_added_bit(key.chunk);
}

void faulty_worker::weight_gradients(const runtime::pass_key& key, int block) {
  flip_before_adding(key);
  worker::weight_gradients(key, block);
}

void faulty_worker::weight_gradients(const runtime::pass_key& key,
                                     int block,
                                     runtime::added_gradients& to) {
  flip_before_adding(key);
  worker::weight_gradients(key, block, to);
}

void faulty_worker::reduce_bucket(int bucket, runtime::stream& stream) {
  faults_->inject("wire:" + rank_, step_);
  faults_->pass("wire:" + rank_, step_, moment::reduce);
  worker::reduce_bucket(bucket, stream);
}

faulty_worker::fate faulty_worker::come_to_reduction() const {
  faults_->inject("lane:" + rank_, step_);
  return come_to(moment::reduce);
}

// The element depends on rank and step.
void faulty_worker::flip_reduced(fate x) {
  if (x == fate::wrong_bits)
    flip_gradient_bit(runtime::random_key(0, rank_, step_));
}

void faulty_worker::finish_reduction() {
  const auto what = come_to_reduction();
  worker::finish_reduction();
  flip_reduced(what);
}

void faulty_worker::reduce() {
  const auto what = come_to_reduction();
  worker::reduce();
  flip_reduced(what);
}

void faulty_worker::update(const runtime::update_decision& decision) {
  const auto what = come_to(moment::updated);
  worker::update(decision);
  if (what != fate::lives)
    flip_state_bit(wrong_array(what), runtime::random_key(0, "lane:" + rank_, step_));
}

void faulty_worker::skip(std::uint64_t iteration) {
  come_to(moment::updated);
  worker::skip(iteration);
}

std::vector<runtime::state_shard> faulty_worker::parameters() {
  come_to(moment::snapshot);
  return worker::parameters();
}

}  // namespace troupe::actors
