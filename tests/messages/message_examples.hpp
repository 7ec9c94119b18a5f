// An example of each message, with a non-default value in every field.

#pragma once

#include "tests/messages/control_examples.hpp"
#include "tests/messages/message_example.hpp"

#include <limits>
#include <utility>

namespace troupe::tests {
namespace {

state_of_rank kept_of_rank() {
  const runtime::ticket x{1, 2, g, runtime::dtype::f32, {6}};
  return {{{runtime::chunk_id(1),
            9,
            {{0, 6}, {7, 9}},
            {x, x},
            x,
            {32, false, {{"w", true, 1, 2, 8, {0, 16}}}}}},
          {{"w", {1, 2}}},
          {{"v", {3, 4}}}};
}

template <>
activation example(const wire&) {
  return {pass, tickets()};
}
template <>
gradient example(const wire&) {
  return {pass, tickets()};
}
template <>
check_pass example(const wire&) {
  return {pass, 1, 2, 3, tickets(), {1, 2}, {3, 4}, {5, 6}, {0, 1, 2}};
}
template <>
request_batch example(const wire&) {
  return {pass, 1, 4, 77, true, true, true, true, true};
}
template <>
batch_ready example(const wire&) {
  return {pass, tickets()};
}
template <>
batch_failed example(const wire&) {
  return {pass};
}
template <>
run_step example(const wire&) {
  return {g, step, 123, true, true, 7, true, 1024, 456, 9};
}
template <>
chosen example(const wire&) {
  return {g, step, some_action, 7};
}
template <>
ask_again example(const wire&) {
  return {g, step, 5};
}
template <>
vote example(const wire&) {
  return {g,
          step,
          1,
          2,
          {{1.5, 10, 0}, {2.5, 11, 1}},
          {{"a", runtime::exact_sum(0.25)}, {"b", runtime::exact_sum(1e300)}},
          {1, 2},
          {{3, 4}, {5, 6}},
          {"b", "1.2", 2, 7},
          12,
          {{1, 7, {{some_action, 0.5, 2.25}}}},
          {{1, 0.5, 0.25, 4096, 0.125, 2, 0.75}},
          {{1,
            0,
            2,
            runtime::chunk_id(1),
            runtime::copy_id(1),
            runtime::microbatch_id(3),
            {1, 2},
            {3, 4},
            {5, 6},
            {7, 8},
            {9, 10},
            {11, 12},
            true}}};
}
template <>
decision example(const wire&) {
  return {g, step, true, 8, 1e-3, 0.5};
}
template <>
applied example(const wire&) {
  return {g, step, 1, 2, {{"a", {3, 4}}}, {{"b", {5, 6}}}, runtime::exact_sum(0.5), {{7, 8}}, "b"};
}
template <>
committed example(const wire&) {
  return {{.iteration = 9,
           .consumed_samples = 72,
           .consumed_tokens = 77,
           .global_batch_size = 8,
           .lm_loss = 2.5,
           .grad_norm = 0.5,
           .learning_rate = 1e-3,
           .elapsed_ms = 20,
           .tokens_per_second = 1e3,
           .flops_per_second = 1e9,
           .state = {5, 6},
           .skipped = skipped,
           .scale = scale,
           .params_norm = 1.5,
           .zero_gradients = 6,
           .pipeline = {5, 4, 0.25, 0.125, 0.1, 0.2, 0.5, 0.75}},
          {{1, 7, {{some_action, 0.5, 2.25}}}},
          8};
}
template <>
validated example(const wire&) {
  return {{9, 2.25, true}, 12};
}
template <>
happened example(const wire&) {
  return {{9, "restart", "stage:0.1", "it broke", "estate", 8, 3, 0.25}, 13};
}
template <>
take_snapshot example(const wire&) {
  return {g, step, 5};
}
template <>
drop_snapshot example(const wire&) {
  return {g, step, 5};
}
template <>
save example(const wire&) {
  return {g, step, 123, 2, skipped, scale, 5, "{}"};
}
template <>
snapshot example(const wire&) {
  const auto told = tickets().tickets;
  const std::vector<runtime::tensor_shard<runtime::ticket>> some
      = {{"matrix", {8, 4}, {{2, 0}, {3, 4}}, told.at(0)}, {"vector", {5}, {{1}, {2}}, told.at(1)}};
  return {g, step, 1, some, some, 5};
}
template <>
saved example(const wire&) {
  return {g, step, 5};
}
template <>
save_failed example(const wire&) {
  return {g, step, "No space left on device", 5};
}
template <>
write_shards example(const wire& w) {
  const auto some = example<snapshot>(w).parameters;
  return {g,
          step,
          5,
          "saved/.iter_0000007.partial",
          4,
          {{2, some, some}},
          w.handle<checkpointer_actor>()};
}
template <>
shards_written example(const wire&) {
  return {g, step, 5, 1, {{2, {64, "ab", {"cd", "ef"}}, {32, "gh", {"ij"}}}}};
}
template <>
shards_refused example(const wire&) {
  return {g, step, 5, 1, true, "No space left on device"};
}
template <>
keep example(const wire&) {
  return {g, step, step, 3, true, kept_of_rank()};
}
template <>
kept example(const wire&) {
  return {g, step, 1, step, step, {70}};
}
template <>
store_kept example(const wire&) {
  return {g, step, step};
}
template <>
fetch_kept example(const wire&) {
  return {g, step, 3};
}
template <>
kept_state example(const wire&) {
  return {g, step, true, kept_of_rank()};
}
template <>
keep_refused example(const wire&) {
  return {g, step, 3, "w"};
}
template <>
find_stored example(const wire&) {
  return {g};
}
template <>
stored_found example(const wire&) {
  return {g, {{1, step, {{2, {{"w", {1, 2}}}}}}}};
}

}  // namespace
}  // namespace troupe::tests
