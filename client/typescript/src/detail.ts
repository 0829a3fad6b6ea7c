// The detail of an error, which the Connect protocol carries in protobuf.

/** The fields of an ErrorDetail, with the names that JSON has. */
export interface Detail {
  kind?: string;
  ids?: string[];
  total?: number | string;
  argument?: string;
  index?: number;
  id?: string;
  problem?: string;
  path?: string[];
  refused?: Record<string, string>[];
  schedules?: string[];
}

type Form = "text" | "texts" | "number" | "messages";
type Fields = Record<number, [name: string, form: Form]>;

// The numbers of the fields in api/proto/stint/v1/task.proto, with their names and what they hold.
const refusedFields: Fields = {
  1: ["predecessor", "text"],
  2: ["dependent", "text"],
  3: ["kind", "text"],
  4: ["predecessor_state", "text"],
  5: ["dependent_state", "text"],
};
const detailFields: Fields = {
  1: ["kind", "text"],
  2: ["ids", "texts"],
  3: ["total", "number"],
  4: ["argument", "text"],
  5: ["index", "number"],
  6: ["id", "text"],
  7: ["problem", "text"],
  8: ["path", "texts"],
  9: ["refused", "messages"],
  11: ["schedules", "texts"],
};

/** Returns the fields of an ErrorDetail in protobuf. Throws if it is none. */
export function decodeDetail(packed: Uint8Array): Detail {
  return decode(packed, detailFields);
}

function decode(packed: Uint8Array, fields: Fields): Record<string, unknown> {
  const message: Record<string, unknown> = {};
  for (const [number, value] of wireFields(packed)) {
    const field = fields[number];
    if (!field) continue; // of a later release
    const [name, form] = field;
    if ((typeof value === "bigint") !== (form === "number")) {
      throw new Error("a field has another type");
    }
    if (typeof value === "bigint") {
      message[name] = Number(BigInt.asIntN(64, value));
    } else if (form === "text") {
      message[name] = textOfWire(value);
    } else {
      const one = form === "texts" ? textOfWire(value) : decode(value, refusedFields);
      message[name] = [...((message[name] as unknown[]) ?? []), one];
    }
  }
  return message;
}

function textOfWire(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}

/** Yields the numbers and values of the fields of a message, except those of fixed size. */
function* wireFields(packed: Uint8Array): Generator<[number, bigint | Uint8Array]> {
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = packed[at];
      if (byte === undefined || shift > 63n) throw new Error("a number does not end");
      at++;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
  };
  while (at < packed.length) {
    const key = Number(varint());
    const number = Math.floor(key / 8);
    switch (key % 8) {
      case 0:
        yield [number, varint()];
        break;
      case 1:
        at += 8;
        break;
      case 2: {
        const size = Number(varint());
        if (at + size > packed.length) throw new Error("a field ends after the message");
        yield [number, packed.subarray(at, at + size)];
        at += size;
        break;
      }
      case 5:
        at += 4;
        break;
      default:
        throw new Error("a field has an unknown type");
    }
  }
}
