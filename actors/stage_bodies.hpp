// What the device of a stage runs: the bodies of operators and services, each with what it needs. Run once, on the
// device.
#pragma once

#include <memory>
#include <utility>

#include "actors/stage_inbox.hpp"
#include "actors/stage_work.hpp"
#include "model/stage_model.hpp"

namespace stagecraft {

inline auto body_of(std::shared_ptr<StageModel> model, const Operator& op, OperatorInput input) {
  return [m = std::move(model), op, input = std::move(input)](Outcome& out) mutable {
    switch (op.kind) {
      case OperatorKind::forward:
        out.tensor = m->forward(op.chunk, std::move(input.tensor), std::move(input.batch));
        break;
      case OperatorKind::backward_input:
        out.tensor = m->backward_input(op.chunk, op.micro_batch, std::move(input.tensor));
        break;
      case OperatorKind::backward_weight:
        m->backward_weight(op.chunk, op.micro_batch);
        break;
      case OperatorKind::backward:
        out.tensor = m->backward_input(op.chunk, op.micro_batch, std::move(input.tensor));
        m->backward_weight(op.chunk, op.micro_batch);
        break;
    }
  };
}

inline auto body_of(std::shared_ptr<StageModel> model, ServiceRequest request) {
  return [m = std::move(model), request = std::move(request)](Outcome& out) mutable {
    if (request.service == Service::tie) out.square_sum = m->tie(request.partner);
    if (request.service == Service::reduce) out.square_sum = m->reduce(request.group, request.segments);
    if (request.service == Service::digest) {
      out.vote = request.vote;
      out.vote->digest = m->digest(request.groups);
    }
    request.segments.clear();
  };
}

}  // namespace stagecraft
