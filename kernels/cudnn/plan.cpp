#include "kernels/cudnn/graph.hpp"

#include <algorithm>

namespace troupe::kernels::cudnn {

namespace {

/// Whether cuDNN marks an engine as nondeterministic.
bool differs_each_time(const descriptor& engine) {
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {};
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(engine.handle(),
                                 CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE,
                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                 &count,
                                 notes),
        "asking cuDNN for the notes of an engine");
  return std::find(notes, notes + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != notes + count;
}

descriptor engine_of(const descriptor& configuration) {
  descriptor out(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  auto handle = out.handle();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(configuration.handle(),
                                 CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1,
                                 &count,
                                 &handle),
        "asking cuDNN for an engine");
  return out;
}

void choose(const descriptor& all,
            const engine_choice& choice,
            const descriptor& device,
            descriptor& engine,
            descriptor& configuration) {
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, all);
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
  engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, device);
  engine.finish("asking cuDNN for an engine by its number");
  std::vector<descriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const auto& [type, value] : choice.knobs) {
    auto& knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    knob.finish("choosing for an engine of cuDNN");
    handles.push_back(knob.handle());
  }
  configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  configuration.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                    CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    std::int64_t(handles.size()),
                    handles.data());
  configuration.finish("choosing for an engine of cuDNN");
}

}  // namespace

std::vector<descriptor> graph::candidates(const descriptor& all, const descriptor& device) {
  descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
  const auto mode = CUDNN_HEUR_MODE_A;
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  heuristics.finish("asking cuDNN for engines");
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics.handle(),
                                 CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 0,
                                 &count,
                                 nullptr),
        "asking cuDNN for engines");
  std::vector<descriptor> out;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i)
    handles.push_back(out.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle());
  check(cudnnBackendGetAttribute(heuristics.handle(),
                                 CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 count,
                                 &count,
                                 handles.data()),
        "asking cuDNN for engines");
  out.erase(out.begin() + count, out.end());
  return out;
}

descriptor graph::described() const {
  descriptor all(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const auto& operation : operations_)
    handles.push_back(operation.handle());
  all.set(CUDNN_ATTR_OPERATIONGRAPH_OPS,
          CUDNN_TYPE_BACKEND_DESCRIPTOR,
          std::int64_t(handles.size()),
          handles.data());
  all.finish("describing a graph to cuDNN");
  return all;
}

plan graph::finished(const descriptor& configuration,
                     const descriptor& engine,
                     const descriptor& device) const {
  descriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  made.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
  made.finish("making a plan of cuDNN");
  plan out(std::move(made));
  out.facts_.workspace = std::size_t(out.made_.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  out.facts_.engine = engine.number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  out.stored_ = stored_;
  out.constants_ = constants_;
  out.values_ = values_;
  return out;
}

plan graph::make_plan(const descriptor& device, bool same_bits) {
  const descriptor all = described();
  std::string why = "its heuristics return none";
  for (const auto& configuration : candidates(all, device)) {
    const auto engine = engine_of(configuration);
    const bool differs = differs_each_time(engine);
    if (same_bits && differs) {
      why = "all of its engines are nondeterministic";
      continue;
    }
    try {
      plan out = finished(configuration, engine, device);
      out.facts_.same_bits = !differs;
      return out;
    } catch (const not_supported& e) {
      why = e.what();
    }
  }
  throw not_supported("cuDNN has no engine for the graph: " + why);
}

plan graph::make_plan(const descriptor& device, const engine_choice& choice) {
  const descriptor all = described();
  descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  try {
    choose(all, choice, device, engine, configuration);
  } catch (const device_failure& e) {
    // A version that does not know the index or a knob reports a bad parameter.
    throw not_supported("cuDNN has no engine for the graph: " + std::string(e.what()));
  }
  return finished(configuration, engine, device);
}

void plan::execute(cudnnHandle_t handle, std::span<void* const> memory, void* workspace) const {
  std::vector<std::int64_t> numbers = stored_;
  std::vector<void*> pointers(memory.begin(), memory.end());
  for (std::size_t i = 0; i < constants_.size(); ++i) {
    numbers.push_back(constants_[i]);
    pointers.push_back(const_cast<float*>(&values_[i]));  // only read; the interface lacks const
  }
  descriptor given(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  given.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers);
  given.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
            CUDNN_TYPE_VOID_PTR,
            std::int64_t(pointers.size()),
            pointers.data());
  given.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  given.finish("passing tensor pointers to cuDNN");
  check(cudnnBackendExecute(handle, made_.handle(), given.handle()),
        "computing attention with cuDNN");
}

}  // namespace troupe::kernels::cudnn
