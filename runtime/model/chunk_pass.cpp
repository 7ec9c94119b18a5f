#include "runtime/model/chunk_pass.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace troupe::runtime {

namespace {

/// (B, T): 0, 1, ..., T - 1 in each row.
tensor counted(stream& stream, std::int64_t B, std::int64_t T) {
  return constant(stream, fmt::format("order {} {}", B, T), {B, T}, [T](std::int64_t i) {
    return std::int32_t(i % T);
  });
}

/// (B + 1): 0, T, 2 T, ...
tensor first_rows(stream& stream, std::int64_t B, std::int64_t T) {
  return constant(stream, fmt::format("starts {} {}", B, T), {B + 1}, [T](std::int64_t b) {
    return std::int32_t(b * T);
  });
}

tensor rotary(stream& stream, const std::vector<float>& frequency) {
  const std::string name(reinterpret_cast<const char*>(frequency.data()),
                         frequency.size() * sizeof(float));
  return constant(stream, "rotary " + name, {std::int64_t(frequency.size())}, [&](std::int64_t i) {
    return frequency[std::size_t(i)];
  });
}

/// Moves the gradient of a variable of the first run to its counterpart of the second run.
struct link_node final : node {
  std::shared_ptr<gradient_slot> from, to;

  void input_gradients(tape&) override {
    if (from->sum)  // empty: moved for another name of the same variable
      to->sum = std::move(from->sum);
  }
};

/// Calls visit(name, variable) for streams, pass::x and local variables, by distinct names.
template <class Visit>
void for_each_variable(pass_variables& of, const Visit& visit) {
  for (auto& [name, x] : of.streams)
    visit(name, x);
  visit(std::string(), of.x);
  for (auto& [name, x] : of.locals)
    visit("module: " + name, x);
}

void link(tape& tape, const std::shared_ptr<gradient_slot>& from, const variable& to) {
  if (!from)
    return;
  auto n = std::make_unique<link_node>();
  n->from = from;
  n->to = to.gradient;
  tape.record(std::move(n));
}

}  // namespace

chunk_pass::chunk_pass(const chunk& of,
                       const recompute_plan& plan,
                       stream& stream,
                       parameter_store& store,
                       const pass_settings& settings,
                       const axis_map<communicator*>& groups)
    : chunk_(of),
      plan_(plan),
      tape_(stream, store, {settings.training, groups, of.sequence_parallel()}),
      pass_() {
  pass_.settings = settings;
  for (const auto& row : axis_table()) {
    if (!row.splits_replica())
      continue;
    const auto* const group = groups[row.id];
    ensure((group == nullptr ? axis_rank() : axis_rank{group->rank(), group->size()})
                   == of.axes()[row.id]
               && (group == nullptr || group->along() == row.id),
           "CHUNK-1: a chunk runs on the axes and ranks that it was cut for");
  }
}

row_layout chunk_pass::rows_at(const bundle& in, const stream_spec& of, bool decoding) {
  row_layout rows;
  rows.positions = in.at(of.positions);
  rows.samples = in.at("samples");
  const auto B = rows.positions.extents()[0], T = rows.positions.extents()[1];
  rows.starts = first_rows(tape_.stream(), B, T);
  // Without a cache each row starts at 0, whatever its position ids are.
  rows.order = decoding ? rows.positions : counted(tape_.stream(), B, T);
  const auto borders = documents_of(of);
  const bool limited = !borders.empty() && in.has(borders);
  rows.uniform = !decoding && !limited;
  if (limited) {
    rows.documents = in.at(borders);
    rows.document_samples = in.at("document_samples");
  }
  return rows;
}

void chunk_pass::begin_rows(const bundle& in, bool decoding, std::span<const std::string> without) {
  const auto& flow = chunk_.flow();
  const auto takes = [&](const std::string& name) {
    return std::ranges::find(flow.batch, name) != flow.batch.end()
           || std::ranges::find(flow.before.inputs, name) != flow.before.inputs.end();
  };
  for (const auto& stream : chunk_.model().streams)
    if (takes(stream.positions) && std::ranges::find(without, stream.name) == without.end())
      pass_.rows_of.insert_or_assign(stream.name, rows_at(in, stream, decoding));
  if (const auto& turns = chunk_.model().rotary_frequency; !turns.empty())
    pass_.rotary_frequency = rotary(tape_.stream(), turns);
}

void chunk_pass::take_inputs(const bundle& in) {
  const auto& flow = chunk_.flow();
  for (const auto* const names : {&flow.batch, &flow.before.inputs})
    for (const auto& name : *names)
      if (in.has(name))
        pass_.batch.add(name, in.at(name));
  const auto lies
      = chunk_.sequence_parallel() ? placement::sequence_sharded : placement::replicated;
  for (const auto& name : flow.before.streams) {
    auto x = tape_.make(in.at(name), lies);
    inputs_.emplace(name, x.gradient);
    pass_.streams.emplace(name, std::move(x));
  }
}

bundle chunk_pass::outputs(const bundle& in) {
  bundle out;
  park();
  const auto& after = chunk_.flow().after;
  for (const auto& name : after.streams) {
    auto& x = pass_.streams.at(name);
    out.add(name, std::move(x.data));
    outputs_.emplace(name, std::move(x.gradient));
  }
  pass_.streams.clear();
  for (const auto& name : after.inputs)
    if (in.has(name))
      out.add(name, in.at(name));
  if (pass_.logits)
    out.add("logits", std::move(pass_.logits));
  return out;
}

bool chunk_pass::idles(int s) const {
  const auto& name = chunk_.stream_of(chunk_.program()[std::size_t(s)].unit);
  return std::ranges::find(idle_, name) != idle_.end();
}

bundle chunk_pass::streams(const bundle& from, std::span<const std::string> names) {
  ensure(chunk_.flow().is_whole() && !tape_.recording(),
         "CHUNK-2: streams are computed alone in a whole model, without a backward pass");
  const auto in = taken(tape_.stream(), from);
  for (const auto& stream : chunk_.model().streams)
    if (std::ranges::find(names, stream.name) == names.end())
      idle_.push_back(stream.name);
  begin_rows(in, false, idle_);
  take_inputs(in);
  run(0, int(chunk_.program().size()));
  park();
  bundle out;
  for (const auto& name : names)
    out.add(name, std::move(pass_.streams.at(name).data));
  publish(tape_.stream(), out);
  return out;
}

bundle chunk_pass::forward(const bundle& from,
                           std::vector<attention_cache>* caches,
                           std::span<const std::string> given) {
  ensure(given.empty() || (chunk_.flow().is_whole() && !tape_.recording()),
         "CHUNK-2: streams are given to a whole model, without a backward pass");
  const auto in = taken(tape_.stream(), from);
  begin_rows(in, caches != nullptr);
  pass_.caches = caches;
  take_inputs(in);
  idle_.assign(given.begin(), given.end());
  for (const auto& name : given)
    pass_.streams.insert_or_assign(name, tape_.make(in.at(name), placement::replicated));
  int next = 0;
  if (tape_.recording())
    for (const auto& group : plan_.groups) {
      run(next, group.first);
      run_unrecorded(group);
      next = group.end;
    }
  run(next, int(chunk_.program().size()));
  auto out = outputs(in);
  publish(tape_.stream(), out);
  return out;
}

loss_value chunk_pass::loss(std::string_view name) {
  loss_value out;
  bool written = false;
  for (const auto& [place, sums] : pass_.losses)
    if (place.name == name) {
      out += loss_of(tape_.stream(), sums);
      written = true;
    }
  ensure(written, "MODEL-9: a loss that is read was written");
  return out;
}

void chunk_pass::park() {
  if (!current_.empty())
    pass_.streams.insert_or_assign(std::exchange(current_, {}), std::exchange(pass_.hidden, {}));
}

void chunk_pass::go_on() const {
  if (pass_.settings.until != nullptr)
    pass_.settings.until->throw_if_cancelled();
}

// Sums are complete at both ends of a recompute group, whose variables are kept or linked. They are
// complete where the stream changes.
bool chunk_pass::next_adds(int s) const {
  const auto& all = chunk_.program();
  const int next = s + 1;
  return next < int(all.size()) && all[std::size_t(next)].adds
         && chunk_.stream_of(all[std::size_t(next)].unit)
                == chunk_.stream_of(all[std::size_t(s)].unit)
         && std::none_of(plan_.groups.begin(), plan_.groups.end(), [next](const auto& group) {
              return group.first == next || group.end == next;
            });
}

// The last segment of a unit drops the streams that end with it.
void chunk_pass::run_segment(int s) {
  const auto& x = chunk_.program()[std::size_t(s)];
  if (const auto& name = chunk_.stream_of(x.unit); name != current_) {
    park();
    current_ = name;
    pass_.rows = pass_.rows_of.at(name);
    if (auto found = pass_.streams.extract(name))
      pass_.hidden = std::move(found.mapped());
  }
  pass_.next_adds = next_adds(s);
  pass_.place = {chunk_.range().first + x.unit, s, {}};
  std::erase_if(pass_.losses, [s](const auto& one) { return one.first.segment == s; });
  x.forward(tape_, pass_);
  if (!ends_unit(s))
    return;
  ensure(pass_.locals.empty() && pass_.own == nullptr,
         "MODEL-11: a unit leaves no local variables");
  for (const auto& name : chunk_.ended_by(x.unit))
    if (name == current_)
      pass_.hidden = {};
    else
      pass_.streams.erase(name);
}

void chunk_pass::run(int first, int end) {
  for (int s = first; s < end; ++s) {
    if (idles(s))
      continue;
    go_on();
    tape_.begin_segment(chunk_.program()[std::size_t(s)].unit);
    run_segment(s);
    tape_.end_segment();
    note_forward(s);
  }
}

bool chunk_pass::begins_unit(int s) const {
  const auto& all = chunk_.program();
  return s == 0 || all[std::size_t(s) - 1].unit != all[std::size_t(s)].unit;
}

bool chunk_pass::ends_unit(int s) const {
  return s + 1 == int(chunk_.program().size()) || begins_unit(s + 1);
}

void chunk_pass::note_forward(int s) const {
  const int unit = chunk_.program()[std::size_t(s)].unit;
  if (read_ && ends_unit(s) && !chunk_.units()[std::size_t(unit)].read_backward)
    read_(unit);
}

bool chunk_pass::ends_stream(int s) const {
  const int unit = chunk_.program()[std::size_t(s)].unit;
  return chunk_.read_until(unit) == unit;
}

void chunk_pass::note_input_gradients(int s) const {
  if (!read_ || !begins_unit(s))
    return;
  for (int unit = int(chunk_.units().size()) - 1; unit >= 0; --unit)
    if (chunk_.read_until(unit) == chunk_.program()[std::size_t(s)].unit)
      read_(unit);
}

void chunk_pass::run_unrecorded(const recompute_group& which) {
  park();
  auto& began = group_inputs_.emplace_back(group_input{variables(), {}});
  std::set<std::shared_ptr<gradient_slot>> known;
  for_each_variable(variables(), [&](const std::string&, variable& x) {
    known.insert(x.gradient);
    x.kept = true;
  });
  for (int s = which.first; s < which.end; ++s) {
    go_on();
    tape_.begin_segment(chunk_.program()[std::size_t(s)].unit, false);
    run_segment(s);
    tape_.end_segment();
  }
  park();
  for_each_variable(variables(), [&](const std::string& name, variable& x) {
    x.kept = false;
    began.slots.emplace(name, known.contains(x.gradient) ? nullptr : x.gradient);
  });
}

void chunk_pass::recompute(int block) {
  const auto& b = plan_.blocks.at(std::size_t(block));
  for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
    const auto& group = plan_.groups[g];
    if (group.first < b.first || group.end > b.end)
      continue;
    auto& began = group_inputs_.at(g);
    variables() = std::exchange(began.variables, {});
    for (int s = group.first; s < group.end; ++s) {
      go_on();
      tape_.rerun_segment(s);
      pass_.unread = s + 1 == group.end;
      run_segment(s);
      if (pass_.unread) {
        park();
        for_each_variable(variables(), [&](const std::string& name, const variable& x) {
          link(tape_, began.slots.at(name), x);
        });
      }
      tape_.end_segment();
    }
    pass_.unread = false;
    variables() = {};
  }
}

bundle chunk_pass::input_gradients(const bundle& in, int block) {
  const auto& b = plan_.blocks.at(std::size_t(block));
  if (block + 1 == blocks())
    for (const auto& [name, slot] : outputs_)
      slot->sum = taken(tape_.stream(), in.at(name));
  for (int s = b.end - 1; s >= b.first; --s) {
    go_on();
    tape_.input_gradients(s);
    note_input_gradients(s);
  }
  bundle out;
  if (block == 0)
    for (const auto& name : chunk_.flow().before.streams)
      out.add(name, std::move(inputs_.at(name)->sum));
  publish(tape_.stream(), out);
  return out;
}

void chunk_pass::backward(int block) {
  const auto& b = plan_.blocks.at(std::size_t(block));
  for (int end = b.end, first = end; end > b.first; end = first) {
    first = end - 1;
    if (read_ && ends_stream(first))
      while (first > b.first && !begins_unit(first))
        --first;
    for (int s = end - 1; s >= first; --s) {
      go_on();
      tape_.input_gradients(s);
      note_input_gradients(s);
    }
    for (int s = end - 1; s >= first; --s) {
      go_on();
      tape_.weight_gradients(s);
    }
  }
}

void chunk_pass::weight_gradients(int block) {
  const auto& b = plan_.blocks.at(std::size_t(block));
  for (int s = b.end - 1; s >= b.first; --s) {
    go_on();
    tape_.weight_gradients(s);
  }
}

}  // namespace troupe::runtime
