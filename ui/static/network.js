// The picture of a network with thousands of tasks, on a canvas. The page has the same as a list.

const readable = 0.55; // from here on there is text in the boxes
const seen = 0.15; // from here on one sees boxes
const states = ["blocked", "scheduled", "ready", "in-progress", "completed", "aborted", "skipped"];

// The shapes of states, in a square of 14, as the page has them beside its words.
const shapes = {
	"blocked": [new Path2D("M12.25 7a5.25 5.25 0 1 1-10.5 0a5.25 5.25 0 1 1 10.5 0M4.5 7h5")],
	"scheduled": [new Path2D("M12.25 7a5.25 5.25 0 1 1-10.5 0a5.25 5.25 0 1 1 10.5 0M7 4v3l2.25 1.25")],
	"ready": [new Path2D("M4 2.2 11.5 7 4 11.8z")],
	"in-progress": [new Path2D("M12.25 7a5.25 5.25 0 1 1-10.5 0a5.25 5.25 0 1 1 10.5 0"), new Path2D("M7 3.5a3.5 3.5 0 0 1 0 7z")],
	"completed": [new Path2D("M2.5 7.5 5.7 10.7 11.7 3.8")],
	"aborted": [new Path2D("M3.2 3.2l7.6 7.6M10.8 3.2l-7.6 7.6")],
	"skipped": [new Path2D("M2.5 3.2 6.3 7 2.5 10.8M7.5 3.2 11.3 7 7.5 10.8")],
};

// show draws the network that a place of the page names, and keeps it up to date.
export async function show(place) {
	const [answer, { PictureMap }] = await Promise.all([fetch(place.dataset.layout), import(place.dataset.map)]);
	if (!answer.ok) throw new Error(answer.statusText);
	const picture = new Picture(place, await answer.json());
	picture.map = new PictureMap(place.parentElement.querySelector(".map"), {
		all: () => ({ width: picture.width, height: picture.height }),
		part: () => picture.part(),
		boxes: () => picture.boxes(),
		show: (x, y) => picture.centre(x, y),
	});
	return picture;
}

class Picture {
	constructor(place, layout) {
		Object.assign(this, layout, { place, layout: place.dataset.layout, asked: 0 });
		this.edges = new Path2D(layout.path);
		this.anyway = new Path2D(layout.anyway);
		this.when = new Path2D(layout.when);
		this.canvas = document.createElement("canvas");
		this.canvas.tabIndex = 0;
		this.canvas.setAttribute("role", "img");
		this.canvas.setAttribute("aria-label", place.getAttribute("aria-label"));
		this.pen = this.canvas.getContext("2d");
		place.replaceChildren(this.canvas);
		place.removeAttribute("tabindex");
		this.listen();
		this.resize();
		this.fit();
		if (this.zoom < seen && this.of >= 0) this.begin();
	}

	// begin shows the task that was asked for, where all of it would be too small to see anything.
	begin() {
		this.zoom = 0.8;
		this.centre(this.xs[this.of] + this.box[0] / 2, this.ys[this.of] + this.box[1] / 2);
	}

	// centre brings a point of the picture into the middle.
	centre(x, y) {
		const { width, height } = this.size();
		this.x = width / 2 - x * this.zoom;
		this.y = height / 2 - y * this.zoom;
		this.draw();
	}

	// part is the part of the picture that is on the screen.
	part() {
		const { width, height } = this.size();
		return { x: -this.x / this.zoom, y: -this.y / this.zoom, width: width / this.zoom, height: height / this.zoom };
	}

	// boxes are the places of all boxes, by state.
	boxes() {
		const [width, height] = this.box;
		return Object.groupBy(this.xs.map((x, i) => ({ x, y: this.ys[i], width, height, state: this.state(i) })), (box) => box.state);
	}

	// fit shows all of it.
	fit() {
		const { width, height } = this.size();
		this.least = Math.min(width / this.width, height / this.height, 1);
		this.zoom = this.least;
		this.x = (width - this.width * this.zoom) / 2;
		this.y = (height - this.height * this.zoom) / 2;
		this.draw();
	}

	size() {
		return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
	}

	// scale zooms by a factor, around a point of the canvas, or its middle.
	scale(by, at) {
		const { width, height } = this.size();
		const { x, y } = at ?? { x: width / 2, y: height / 2 };
		const zoom = Math.min(Math.max(this.zoom * by, this.least), 2);
		this.x = x - (x - this.x) * zoom / this.zoom;
		this.y = y - (y - this.y) * zoom / this.zoom;
		this.zoom = zoom;
		this.draw();
	}

	move(x, y) {
		this.x += x;
		this.y += y;
		this.draw();
	}

	resize() {
		const { width, height } = this.size();
		this.canvas.width = width * devicePixelRatio;
		this.canvas.height = height * devicePixelRatio;
		this.draw();
	}

	// draw draws once, when the browser is ready for it.
	draw() {
		this.asked ||= requestAnimationFrame(() => {
			this.asked = 0;
			const begun = performance.now();
			this.paint();
			this.place.dataset.took = Math.round(performance.now() - begun);
		});
	}

	paint() {
		const style = getComputedStyle(this.canvas);
		const colour = (name) => style.getPropertyValue("--" + name);
		const { pen, zoom } = this;
		const { width, height } = this.size();
		pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
		pen.clearRect(0, 0, width, height);
		pen.translate(this.x, this.y);
		pen.scale(zoom, zoom);
		pen.lineWidth = Math.max(1.25, 0.4 / zoom);
		pen.strokeStyle = colour("edge");
		pen.globalAlpha = zoom < readable ? 0.5 : 1;
		pen.stroke(this.edges);
		pen.setLineDash([5, 4]);
		pen.stroke(this.anyway);
		pen.setLineDash([1.5, 3]);
		pen.stroke(this.when);
		pen.setLineDash([]);
		pen.globalAlpha = 1;
		const part = this.part();
		const shown = this.visible(part.x, part.y, part.width, part.height);
		if (zoom >= readable) this.paintChain(colour);
		if (zoom < readable) this.paintFar(shown, colour);
		else this.paintNear(shown, colour, style.fontFamily);
		if (zoom < readable) this.paintChain(colour);
		this.map?.draw(this.place.dataset.states + colour("box"));
	}

	// The longest chain of unfinished tasks is a thick line: behind the words of boxes, and above
	// boxes without words.
	paintChain(colour) {
		const { pen, box: [w, h] } = this;
		pen.beginPath();
		for (const i of this.place.dataset.chain.split(" ")) pen.lineTo(this.xs[i] + w / 2, this.ys[i] + h / 2);
		pen.strokeStyle = colour("ink");
		pen.lineWidth = Math.max(3, 2 / this.zoom);
		pen.lineJoin = "round";
		pen.stroke();
	}

	// visible are the tasks whose boxes are in a part of the picture.
	visible(left, top, width, height) {
		const shown = [];
		for (let i = 0; i < this.xs.length; i++) {
			if (this.xs[i] + this.box[0] > left && this.xs[i] < left + width &&
				this.ys[i] + this.box[1] > top && this.ys[i] < top + height) shown.push(i);
		}
		return shown;
	}

	state(i) {
		return states[this.place.dataset.states.charCodeAt(i) - 48] ?? "blocked";
	}

	// Far away a box has no room for words: what has ended well is full, what failed is crossed, and
	// what is in progress is half full.
	paintFar(shown, colour) {
		const { pen } = this;
		const [w, h] = this.box;
		const grouped = Map.groupBy(shown, (i) => this.state(i));
		for (const [state, tasks] of grouped) {
			pen.fillStyle = colour("box");
			pen.beginPath();
			for (const i of tasks) pen.rect(this.xs[i], this.ys[i], w, h);
			pen.fill();
			pen.strokeStyle = pen.fillStyle = colour(state + "-fill");
			pen.lineWidth = Math.max(2, 1 / this.zoom);
			pen.stroke();
			const share = { "completed": 1, "in-progress": 0.5 }[state] ?? 0;
			pen.beginPath();
			for (const i of tasks) pen.rect(this.xs[i], this.ys[i], w * share, h);
			pen.fill();
			if (state !== "aborted") continue;
			pen.beginPath();
			for (const i of tasks) {
				pen.moveTo(this.xs[i], this.ys[i]);
				pen.lineTo(this.xs[i] + w, this.ys[i] + h);
				pen.moveTo(this.xs[i] + w, this.ys[i]);
				pen.lineTo(this.xs[i], this.ys[i] + h);
			}
			pen.stroke();
		}
	}

	paintNear(shown, colour, font) {
		const { pen } = this;
		const [w, h] = this.box;
		for (const i of shown) {
			const state = this.state(i);
			const quiet = state === "blocked" || state === "scheduled" || state === "skipped";
			pen.save();
			pen.translate(this.xs[i], this.ys[i]);
			pen.beginPath();
			pen.roundRect(0, 0, w, h, this.round[i] === "1" ? h / 2 : 6);
			pen.fillStyle = colour("box");
			pen.fill();
			pen.lineWidth = i === this.of ? 2 : 1;
			pen.strokeStyle = i === this.of ? colour("ink") : colour(quiet ? "strong-line" : state + "-fill");
			pen.stroke();
			pen.clip();
			pen.fillStyle = colour("ink");
			pen.font = "600 13px " + font;
			pen.fillText(this.names[i], 12, 19);
			pen.fillStyle = colour("soft");
			pen.font = "12px " + font;
			pen.fillText(this.actions[this.action[i]], 12, 34);
			pen.fillStyle = pen.strokeStyle = colour(state);
			pen.fillText(state.replace("-", " "), 29, 50);
			pen.translate(12, 40);
			pen.scale(12 / 14, 12 / 14);
			pen.lineWidth = 1.75;
			pen.stroke(shapes[state][0]);
			if (shapes[state][1]) pen.fill(shapes[state][1]);
			pen.restore();
		}
	}

	// at is the task below a point of the canvas, -1 if there is none.
	at(x, y) {
		const near = this.visible((x - this.x) / this.zoom, (y - this.y) / this.zoom, 0, 0);
		return near.length ? near[near.length - 1] : -1;
	}

	listen() {
		const { canvas } = this;
		const down = new Map(); // the fingers, or the mouse
		let moved = false;
		canvas.addEventListener("pointerdown", (event) => {
			if (event.button !== 0) return;
			canvas.setPointerCapture(event.pointerId);
			down.set(event.pointerId, event);
			moved = down.size > 1;
		});
		canvas.addEventListener("pointermove", (event) => {
			const before = down.get(event.pointerId);
			if (!before) return this.tell(event);
			const x = event.offsetX - before.offsetX, y = event.offsetY - before.offsetY;
			if (!moved && Math.hypot(x, y) < 4) return;
			moved = true;
			down.set(event.pointerId, event);
			this.move(x / down.size, y / down.size);
			if (down.size < 2) return;
			const other = [...down.values()].find((one) => one.pointerId !== event.pointerId);
			const far = (one) => Math.hypot(one.offsetX - other.offsetX, one.offsetY - other.offsetY);
			this.scale(far(event) / Math.max(far(before), 1), {
				x: (event.offsetX + other.offsetX) / 2, y: (event.offsetY + other.offsetY) / 2,
			});
		});
		const up = (event) => {
			const was = down.delete(event.pointerId);
			if (!was || moved || event.type !== "pointerup") return;
			const i = this.at(event.offsetX, event.offsetY);
			if (i >= 0) location.href = "task?id=" + encodeURIComponent(this.ids[i]);
		};
		canvas.addEventListener("pointerup", up);
		canvas.addEventListener("pointercancel", up);
		canvas.addEventListener("wheel", (event) => {
			if (!event.ctrlKey) return; // otherwise the page scrolls
			event.preventDefault();
			this.scale(Math.exp(-event.deltaY / 300), { x: event.offsetX, y: event.offsetY });
		}, { passive: false });
		canvas.addEventListener("keydown", (event) => {
			const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
			if (!step) return;
			event.preventDefault();
			this.move(...step);
		});
		new ResizeObserver(() => this.resize()).observe(canvas);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
	}

	// tell says which task is below the mouse.
	tell(event) {
		const i = this.at(event.offsetX, event.offsetY);
		const title = i < 0 ? "" : `${this.ids[i]}\n${this.actions[this.action[i]]}\n${this.state(i).replace("-", " ")}`;
		if (this.canvas.title !== title) this.canvas.title = title;
		this.canvas.style.cursor = i < 0 ? "grab" : "pointer";
	}
}
